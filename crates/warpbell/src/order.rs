//! What keeps data before its completion, for kernels that reap by themselves.
//!
//! A controller writes data first, and then the completion. Writes to one memory arrive in that order; writes to two may
//! overtake each other on the way, whatever a GPU says of writes to its own memory. docs/gpu.md has the same rule as a
//! table, which a test compares with [`OrderPolicy::of`].

use std::fmt;
use std::sync::Arc;

use warpbell_gpu::WriteOrdering;

use crate::{DataPlacement, Error, RingPlace, RingPlacement};

/// A memory, as one function's writes tell memories apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderDomain {
    /// The host's.
    Host,
    /// A BAR of another function; different numbers are different BARs.
    Bar(u8),
    /// That of the GPU whose kernels reap.
    Gpu,
}

/// Who sees completions, and then uses the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaper {
    /// Kernels on the CPU target.
    Cpu,
    /// Kernels on a GPU that says this of other devices' writes to its memory.
    Gpu(WriteOrdering),
}

/// How data comes to where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The controller writes it there itself.
    Peer,
    /// A controller in this process copies it, and completes a command when its copies have ended.
    Copied,
}

/// What is done between a completion and the use of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderPolicy {
    /// Nothing: one memory takes both, in order.
    OneMemory,
    /// Nothing: the data is there before the completion is written.
    CompletedWhenCopied,
    /// Whoever reaps reads a register of the controller before it delivers.
    Flush {
        /// And then a word of the memory that data lies in, which is not the reader's own.
        data: bool,
    },
    /// Nothing helps: such queues are not attached.
    Refused(OrderRefusal),
}

/// Why kernels cannot know that data is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OrderRefusal {
    /// Kernels on the CPU do not reach it.
    Unreachable,
    /// The GPU orders other devices' writes to its own memory for nobody, and only its host can flush them.
    Unordered,
    /// A register of the controller is not memory that kernels can read.
    Registers,
}

impl OrderPolicy {
    /// The rule. `registers`: whether kernels of the reaper can read a register of the controller.
    ///
    /// The GPU's word ([`WriteOrdering`]) is of its own memory. At least `Owner`: "writes to the device do not need to be
    /// flushed for consumers within the scope" (CUDA driver API, CUGPUDirectRDMAWritesOrdering), which holds for
    /// completions that come the same way. `None`: not even those; the flush that CUDA has is a call of the host.
    /// Completions elsewhere come by another way: NCCL flushes GPUs up to Ampere, and coherent ones, that say `Owner`.
    pub const fn of(
        completions: OrderDomain,
        data: OrderDomain,
        delivery: Delivery,
        reaper: Reaper,
        registers: bool,
    ) -> OrderPolicy {
        use {OrderDomain as Domain, OrderRefusal as Refusal};
        let of_gpu = matches!(completions, Domain::Gpu) || matches!(data, Domain::Gpu);
        if of_gpu && matches!(reaper, Reaper::Cpu) {
            return OrderPolicy::Refused(Refusal::Unreachable);
        }
        if matches!(delivery, Delivery::Copied) {
            return OrderPolicy::CompletedWhenCopied;
        }
        if matches!(data, Domain::Gpu) && matches!(reaper, Reaper::Gpu(WriteOrdering::None)) {
            return OrderPolicy::Refused(Refusal::Unordered);
        }
        if completions.is(data) {
            return OrderPolicy::OneMemory;
        }
        if !registers {
            return OrderPolicy::Refused(Refusal::Registers);
        }
        let own = match reaper {
            Reaper::Cpu => Domain::Host,
            Reaper::Gpu(_) => Domain::Gpu,
        };
        OrderPolicy::Flush { data: !data.is(own) }
    }

    /// Whether whoever reaps flushes.
    pub const fn flushes(self) -> bool {
        matches!(self, OrderPolicy::Flush { .. })
    }

    /// An error where it is a refusal.
    pub(crate) fn require(self, rings: &RingPlacement, data: &DataPlacement) -> Result<OrderPolicy, Error> {
        let OrderPolicy::Refused(reason) = self else { return Ok(self) };
        Err(Error::Missing {
            what: format!("an order of completions in {} and data in {}", rings.name(), data.name()),
            remedy: format!("{reason}; {}", reason.remedy()),
        })
    }
}

impl fmt::Display for OrderPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OrderPolicy::OneMemory => f.write_str("nothing: one memory"),
            OrderPolicy::CompletedWhenCopied => f.write_str("nothing: completed when copied"),
            OrderPolicy::Flush { data: false } => f.write_str("flush: register"),
            OrderPolicy::Flush { data: true } => f.write_str("flush: register and data"),
            OrderPolicy::Refused(reason) => write!(f, "refused: {reason}"),
        }
    }
}

impl fmt::Display for OrderRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OrderRefusal::Unreachable => "kernels on the CPU do not reach the GPU's memory",
            OrderRefusal::Unordered => "the GPU does not order writes to its memory",
            OrderRefusal::Registers => "kernels cannot read registers of the controller",
        })
    }
}

impl OrderRefusal {
    fn remedy(self) -> &'static str {
        match self {
            OrderRefusal::Unreachable => "run kernels on the GPU, or use host memory",
            OrderRefusal::Unordered => "put data elsewhere (--data host)",
            OrderRefusal::Registers => "put both in one memory (--rings, --data)",
        }
    }
}

impl OrderDomain {
    const fn is(self, other: OrderDomain) -> bool {
        match (self, other) {
            (OrderDomain::Host, OrderDomain::Host) | (OrderDomain::Gpu, OrderDomain::Gpu) => true,
            (OrderDomain::Bar(one), OrderDomain::Bar(other)) => one == other,
            _ => false,
        }
    }

    /// Of completions and of data.
    pub(crate) fn pair(rings: &RingPlacement, data: &DataPlacement) -> (OrderDomain, OrderDomain) {
        let cq = rings.cq();
        let completions = match &cq {
            RingPlace::Host | RingPlace::Cmb => OrderDomain::Host,
            RingPlace::Foreign(_) => OrderDomain::Bar(0),
            RingPlace::Hbm(_) => OrderDomain::Gpu,
        };
        let data = match (data, &cq) {
            (DataPlacement::Host, _) => OrderDomain::Host,
            (DataPlacement::Hbm(_), _) => OrderDomain::Gpu,
            (DataPlacement::Foreign(data), RingPlace::Foreign(rings)) if Arc::ptr_eq(data, rings) => {
                OrderDomain::Bar(0)
            }
            (DataPlacement::Foreign(_), _) => OrderDomain::Bar(1),
        };
        (completions, data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPU_DOC: &str = include_str!("../../../docs/gpu.md");
    const DOMAINS: [OrderDomain; 4] =
        [OrderDomain::Host, OrderDomain::Bar(0), OrderDomain::Bar(1), OrderDomain::Gpu];
    const REAPERS: [(&str, Reaper); 3] = [
        ("CPU", Reaper::Cpu),
        ("GPU, ordered", Reaper::Gpu(WriteOrdering::Owner)),
        ("GPU, unordered", Reaper::Gpu(WriteOrdering::None)),
    ];

    /// What the page says: whether data is copied, completions, data, and what three reapers do.
    struct Row<'a> {
        delivery: Delivery,
        completions: OrderDomain,
        data: OrderDomain,
        says: Vec<&'a str>,
    }

    fn domain(word: &str) -> OrderDomain {
        match word {
            "host" => OrderDomain::Host,
            "BAR A" => OrderDomain::Bar(0),
            "BAR B" => OrderDomain::Bar(1),
            "HBM" => OrderDomain::Gpu,
            other => panic!("docs/gpu.md: no memory is called '{other}'"),
        }
    }

    fn rows() -> Vec<Row<'static>> {
        let (_, table) = GPU_DOC.split_once("| completions | data |").expect("docs/gpu.md has the table");
        let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        let rows = rows.map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let (data, delivery) = match cells[1].strip_suffix(", copied") {
                Some(data) => (data, Delivery::Copied),
                None => (cells[1], Delivery::Peer),
            };
            let (completions, data) = (domain(cells[0]), domain(data));
            Row { delivery, completions, data, says: cells[2..].to_vec() }
        });
        rows.collect()
    }

    #[test]
    fn the_table_in_the_docs_is_the_rule_row_by_row() {
        let rows = rows();
        for Row { delivery, completions, data, says } in &rows {
            let policy = |reaper, registers| {
                OrderPolicy::of(*completions, *data, *delivery, reaper, registers).to_string()
            };
            let said: Vec<String> = REAPERS.iter().map(|(_, reaper)| policy(*reaper, true)).collect();
            assert_eq!(*says, said, "completions in {completions:?}, data in {data:?}, {delivery:?}");
        }
        // Every pair has a row; a second BAR needs none beyond the first where neither is the other's.
        let has = |completions: OrderDomain, data: OrderDomain| {
            rows.iter()
                .any(|row| (row.completions, row.data, row.delivery) == (completions, data, Delivery::Peer))
        };
        for completions in [OrderDomain::Host, OrderDomain::Bar(0), OrderDomain::Gpu] {
            for data in DOMAINS {
                let same_as_a = data == OrderDomain::Bar(1) && completions != OrderDomain::Bar(0);
                assert!(has(completions, data) || same_as_a, "no row for {completions:?} and {data:?}");
            }
        }
        assert!(rows.iter().any(|row| row.delivery == Delivery::Copied));
    }

    #[test]
    fn whoever_cannot_read_registers_is_refused_where_a_flush_is_due_and_nowhere_else() {
        for completions in DOMAINS {
            for data in DOMAINS {
                for delivery in [Delivery::Peer, Delivery::Copied] {
                    for (name, reaper) in REAPERS {
                        let with = OrderPolicy::of(completions, data, delivery, reaper, true);
                        let without = OrderPolicy::of(completions, data, delivery, reaper, false);
                        let expected = match with.flushes() {
                            true => OrderPolicy::Refused(OrderRefusal::Registers),
                            false => with,
                        };
                        assert_eq!(without, expected, "{name}: {completions:?}, {data:?}, {delivery:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_gpus_word_is_of_its_own_memory_alone() {
        use OrderDomain::{Gpu, Host};
        for ordering in [WriteOrdering::Owner, WriteOrdering::AllDevices] {
            let of = |completions, data| {
                OrderPolicy::of(completions, data, Delivery::Peer, Reaper::Gpu(ordering), true)
            };
            assert_eq!(of(Gpu, Gpu), OrderPolicy::OneMemory);
            assert_eq!(of(Host, Gpu), OrderPolicy::Flush { data: false });
            assert_eq!(of(Gpu, Host), OrderPolicy::Flush { data: true });
        }
    }

    #[test]
    fn a_refusal_names_both_memories_the_reason_and_a_remedy() {
        let policy = OrderPolicy::Refused(OrderRefusal::Registers);
        let error = policy.require(&RingPlacement::Host, &DataPlacement::Host).unwrap_err();
        assert_eq!(
            error.to_string(),
            "an order of completions in host and data in host is not available: kernels cannot read registers of the \
             controller; put both in one memory (--rings, --data)"
        );
        assert_eq!(error.exit_code(), 4);
    }
}
