//! Whether the accesses to one block could have happened one after the other, each at a moment between its call and
//! its answer.

use std::fmt;

use super::Access;
use super::cluster::{Cluster, clusters};

/// Why they could not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anomaly {
    /// Read what nobody ever wrote.
    Unwritten {
        /// The read.
        read: Access,
    },
    /// Read, and answered, before the write began.
    TooEarly {
        /// The read.
        read: Access,
        /// The write.
        write: Access,
    },
    /// Each of two values was there before the other.
    BothFirst {
        /// One value.
        one: u64,
        /// The other.
        other: u64,
    },
    /// A value came and went while another one was there all the time.
    Inside {
        /// The value that came.
        inner: u64,
        /// The value that was there.
        outer: u64,
    },
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Anomaly::Unwritten { read } => write!(f, "read {:#x}, which nobody wrote", read.value()),
            Anomaly::TooEarly { read, write } => {
                let (value, to, from) = (read.value(), read.to, write.from);
                write!(f, "{value:#x} was read by {to} ns, and its write began at {from} ns")
            }
            Anomaly::BothFirst { one, other } => {
                write!(f, "{one:#x} was there before {other:#x}, and after it")
            }
            Anomaly::Inside { inner, outer } => {
                write!(f, "{inner:#x} came and went while {outer:#x} was there all the time")
            }
        }
    }
}

/// Checks the accesses to one block that held `initial` at first; `None`: anything, and it was not read.
pub fn check(accesses: &[Access], initial: Option<u64>) -> Result<(), Anomaly> {
    let clusters = clusters(accesses, initial);
    clusters.iter().try_for_each(check_one)?;
    for (index, one) in clusters.iter().enumerate() {
        clusters[index + 1..].iter().try_for_each(|other| check_two(one, other))?;
    }
    Ok(())
}

fn check_one(cluster: &Cluster) -> Result<(), Anomaly> {
    let Some(write) = cluster.write else {
        return Err(Anomaly::Unwritten { read: cluster.reads[0] });
    };
    match cluster.reads.iter().find(|read| read.to < write.from) {
        Some(read) => Err(Anomaly::TooEarly { read: *read, write }),
        None => Ok(()),
    }
}

fn check_two(one: &Cluster, other: &Cluster) -> Result<(), Anomaly> {
    match (one.is_forward(), other.is_forward()) {
        (true, true) if one.precedes(other) && other.precedes(one) => {
            Err(Anomaly::BothFirst { one: one.value, other: other.value })
        }
        (true, false) => check_inside(other, one),
        (false, true) => check_inside(one, other),
        _ => Ok(()),
    }
}

/// All of `inner` lies between two moments at which `outer` was there.
fn check_inside(inner: &Cluster, outer: &Cluster) -> Result<(), Anomaly> {
    if outer.first_end < inner.last_begin && inner.first_end < outer.last_begin {
        return Err(Anomaly::Inside { inner: inner.value, outer: outer.value });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, NEVER};
    use super::*;

    fn access(kind: Kind, from: u64, to: u64) -> Access {
        Access { kind, from, to, who: 0 }
    }
    fn write(value: u64, from: u64, to: u64) -> Access {
        access(Kind::Write(value), from, to)
    }
    fn read(value: u64, from: u64, to: u64) -> Access {
        access(Kind::Read(value), from, to)
    }
    fn attempt(value: u64, from: u64) -> Access {
        access(Kind::Attempt(value), from, NEVER)
    }

    #[test]
    fn lawful_histories_pass() {
        let all: [&[Access]; 6] = [
            &[],
            &[read(0, 1, 2), write(1, 3, 4), read(1, 5, 6)],
            // At the same time: before or after, both are right.
            &[write(1, 1, 10), read(0, 2, 3), read(1, 4, 5), read(1, 11, 12)],
            &[write(1, 1, 10), write(2, 1, 10), read(2, 11, 12)],
            &[write(1, 1, 10), write(2, 1, 10), read(2, 2, 3), read(1, 11, 12)],
            // A write that was given up and never seen, and one that happens long after.
            &[attempt(1, 1), attempt(2, 2), read(0, 3, 4), read(2, 100, 101)],
        ];
        for history in all {
            assert_eq!(check(history, Some(0)), Ok(()), "{history:?}");
        }
    }

    #[test]
    fn a_value_that_nobody_wrote_is_found() {
        assert!(matches!(check(&[read(7, 1, 2)], Some(0)), Err(Anomaly::Unwritten { .. })));
        assert!(matches!(check(&[read(7, 1, 2)], None), Err(Anomaly::Unwritten { .. })));
    }

    #[test]
    fn a_value_read_before_it_was_written_is_found() {
        let history = [read(1, 1, 2), write(1, 3, 4)];
        assert!(matches!(check(&history, Some(0)), Err(Anomaly::TooEarly { .. })));
        assert!(matches!(check(&[read(1, 1, 2), attempt(1, 3)], Some(0)), Err(Anomaly::TooEarly { .. })));
    }

    #[test]
    fn a_lost_write_is_found() {
        let history = [write(1, 1, 2), read(0, 3, 4)];
        assert!(check(&history, Some(0)).is_err());
        let history = [write(1, 1, 2), write(2, 3, 4), read(1, 5, 6)];
        assert_eq!(check(&history, Some(0)), Err(Anomaly::Inside { inner: 2, outer: 1 }));
    }

    #[test]
    fn a_value_that_comes_back_is_found() {
        let history = [write(1, 1, 10), write(2, 1, 10), read(1, 11, 12), read(2, 13, 14), read(1, 15, 16)];
        assert_eq!(check(&history, Some(0)), Err(Anomaly::BothFirst { one: 1, other: 2 }));
        // Seen, gone again: the attempt did not happen, or it did.
        let history = [attempt(1, 1), read(1, 2, 3), read(0, 4, 5)];
        assert!(check(&history, Some(0)).is_err());
    }

    #[test]
    fn two_readers_that_disagree_on_the_order_are_found() {
        let writes = [write(1, 1, 100), write(2, 1, 100)];
        let reads = [read(1, 2, 3), read(2, 4, 5), read(2, 6, 7), read(1, 8, 9)];
        assert!(check(&[&writes[..], &reads[..]].concat(), Some(0)).is_err());
    }

    /// Every order of the accesses that respects time, tried one by one.
    fn brute_force(accesses: &[Access], value: u64) -> bool {
        if accesses.iter().all(|access| matches!(access.kind, Kind::Attempt(_))) {
            return true;
        }
        let first_end =
            accesses.iter().map(|a| if matches!(a.kind, Kind::Attempt(_)) { NEVER } else { a.to }).min();
        (0..accesses.len()).any(|choice| {
            let access = accesses[choice];
            let rest = [&accesses[..choice], &accesses[choice + 1..]].concat();
            access.from <= first_end.unwrap_or(NEVER)
                && match access.kind {
                    Kind::Read(seen) => seen == value && brute_force(&rest, value),
                    Kind::Write(new) => brute_force(&rest, new),
                    Kind::Attempt(new) => brute_force(&rest, new),
                }
        })
    }

    #[test]
    fn it_agrees_with_trying_every_order() {
        let mut draw = crate::case::Draw::new(5);
        let (mut lawful, mut broken) = (0, 0);
        for _ in 0..20_000 {
            let mut history = Vec::new();
            for value in 1..=draw.below(3) + 1 {
                let (from, len) = (1 + 2 * draw.below(8), 1 + 2 * draw.below(6));
                let tried = draw.below(4) == 0;
                history.push(if tried { attempt(value, from) } else { write(value, from, from + len) });
            }
            for _ in 0..draw.below(4) {
                let from = 2 + 2 * draw.below(8);
                history.push(read(draw.below(4), from, from + 1 + 2 * draw.below(4)));
            }
            let known = |access: &Access| {
                access.value() == 0
                    || history.iter().any(|a| a.value() == access.value() && !matches!(a.kind, Kind::Read(_)))
            };
            let expected = history.iter().all(known) && brute_force(&history, 0);
            assert_eq!(check(&history, Some(0)).is_ok(), expected, "{history:?}");
            *(if expected { &mut lawful } else { &mut broken }) += 1;
        }
        assert!(lawful > 2000 && broken > 2000, "{lawful} lawful, {broken} broken");
    }
}
