//! What a block may hold after a loss of power.

use super::cluster::{Cluster, clusters};
use super::{Access, Moment};

/// The values that the block may hold: all but those that a value had replaced which was flushed. `flushes` are the
/// moments at which successful flushes began; `forced` says of which writes (by `who`) the success alone makes them
/// durable.
pub fn survivors(
    accesses: &[Access],
    initial: Option<u64>,
    flushes: &[Moment],
    forced: impl Fn(usize) -> bool,
) -> Vec<u64> {
    let all = clusters(accesses, initial);
    let flushed = |cluster: &Cluster| {
        let written = cluster.write.is_some_and(|write| forced(write.who));
        written || flushes.iter().any(|begin| cluster.first_end < *begin)
    };
    let durable: Vec<&Cluster> = all.iter().filter(|cluster| flushed(cluster)).collect();
    let replaced = |cluster: &Cluster| {
        durable.iter().any(|later| later.value != cluster.value && cluster.precedes(later))
    };
    let mut values: Vec<u64> =
        all.iter().filter(|cluster| !replaced(cluster)).map(|cluster| cluster.value).collect();
    // A write that was tried and never seen may have happened.
    values.extend(accesses.iter().map(Access::value).filter(|value| all.iter().all(|c| c.value != *value)));
    values
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    fn write(value: u64, from: u64, to: u64, who: usize) -> Access {
        Access { kind: Kind::Write(value), from, to, who }
    }

    #[test]
    fn what_was_flushed_survives() {
        let history = [write(1, 1, 2, 0), write(2, 3, 4, 1)];
        assert_eq!(survivors(&history, Some(0), &[5], |_| false), [2]);
        assert_eq!(survivors(&history, Some(0), &[], |_| false), [0, 1, 2]);
        assert_eq!(
            survivors(&history, Some(0), &[3], |_| false),
            [1, 2],
            "the flush began before the write ended"
        );
    }

    #[test]
    fn a_forced_write_survives_without_a_flush() {
        let history = [write(1, 1, 2, 7), write(2, 3, 4, 8)];
        assert_eq!(survivors(&history, Some(0), &[], |who| who == 7), [1, 2]);
    }

    #[test]
    fn writes_at_the_same_time_may_survive_either_way() {
        let history = [write(1, 1, 5, 0), write(2, 2, 6, 1)];
        assert_eq!(survivors(&history, Some(0), &[7], |_| false), [1, 2]);
    }

    #[test]
    fn a_value_that_was_read_was_there_to_be_flushed() {
        let seen = Access { kind: Kind::Read(1), from: 3, to: 4, who: 2 };
        let tried = Access { kind: Kind::Attempt(1), from: 1, to: super::super::NEVER, who: 0 };
        assert_eq!(survivors(&[tried, seen], Some(0), &[5], |_| false), [1]);
        assert_eq!(survivors(&[tried], Some(0), &[5], |_| false), [0, 1]);
    }
}
