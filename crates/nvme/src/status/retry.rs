//! Whether to try a failed command again.

use super::Status;

/// When the same command may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// Not by being submitted again.
    Never,
    /// At once.
    AtOnce,
    /// After this Command Retry Delay Time of Identify Controller: 1 for CRDT1, to 3 for CRDT3.
    After(u8),
}

impl Status {
    /// The statuses that tell of a moment and not of the command or the medium: after them the same command may succeed,
    /// unless Do Not Retry says otherwise (Base 2.0, 3.3.3.2.1, figures 94 and 98).
    pub const RETRIED: &'static [Self] = &[
        Self::DATA_TRANSFER_ERROR,
        Self::POWER_LOSS_ABORT,
        Self::INTERNAL_ERROR,
        Self::ABORT_REQUESTED,
        Self::ABORTED_SQ_DELETION,
        Self::SANITIZE_IN_PROGRESS,
        Self::COMMAND_INTERRUPTED,
        Self::TRANSIENT_TRANSPORT_ERROR,
        Self::NAMESPACE_NOT_READY,
        Self::FORMAT_IN_PROGRESS,
        Self::INTERNAL_PATH_ERROR,
        Self::ANA_TRANSITION,
        Self::CONTROLLER_PATHING_ERROR,
    ];

    /// When the command that completed with this status may be submitted again. The device library has the same rule
    /// (`warpbell/status.cuh`).
    pub const fn retry(self) -> Retry {
        if self.dnr() || !self.is_retried() {
            return Retry::Never;
        }
        match self.crd() {
            0 => Retry::AtOnce,
            crd => Retry::After(crd),
        }
    }

    /// Whether the host had it ended: by an Abort, or by the deletion of its queue.
    pub const fn is_aborted(self) -> bool {
        self.same_code(Self::ABORT_REQUESTED) || self.same_code(Self::ABORTED_SQ_DELETION)
    }

    const fn is_retried(self) -> bool {
        let mut index = 0;
        while index < Self::RETRIED.len() {
            if self.same_code(Self::RETRIED[index]) {
                return true;
            }
            index += 1;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_is_retried_by_its_code_its_dnr_and_its_crd() {
        let mut counts = [0; 3];
        for bits in 0..1 << 15 {
            let status = Status::from_bits(bits);
            let listed = Status::RETRIED.iter().any(|one| one.same_code(status));
            let expected = match (listed && bits >> 14 == 0, bits >> 11 & 3) {
                (false, _) => Retry::Never,
                (true, 0) => Retry::AtOnce,
                (true, crd) => Retry::After(crd as u8),
            };
            assert_eq!(status.retry(), expected, "{status:?}");
            counts[match expected {
                Retry::Never => 0,
                Retry::AtOnce => 1,
                Retry::After(_) => 2,
            }] += 1;
        }
        // More is either way, Do Not Retry is clear.
        let listed = Status::RETRIED.len();
        assert_eq!(counts, [(1 << 15) - 8 * listed, 2 * listed, 6 * listed]);
    }

    #[test]
    fn what_cannot_succeed_is_never_retried() {
        let hopeless = [
            Status::SUCCESS,
            Status::INVALID_FIELD,
            Status::LBA_OUT_OF_RANGE,
            Status::UNRECOVERED_READ,
            Status::WRITE_FAULT,
            Status::INVALID_QUEUE_IDENTIFIER,
            Status::HOST_PATHING_ERROR,
        ];
        assert!(hopeless.iter().all(|status| status.retry() == Retry::Never));
    }
}
