//! Statuses in words.

use warpbell_kernels::abi;
use warpbell_nvme::Status;

/// What the status of a finished I/O says: the controller's words, or the device library's.
pub fn describe_status(status: u32) -> String {
    if status & abi::STATUS_LIBRARY == 0 {
        return Status::from_bits(status as u16).to_string();
    }
    let text = match status & !abi::STATUS_LIBRARY {
        abi::TIMED_OUT => "deadline passed with the command in flight",
        abi::NOT_SUBMITTED => "deadline passed before the command was submitted",
        abi::ABORTED => "stopped before submission",
        abi::OUT_OF_RANGE => "the extent leaves the namespace",
        abi::MISALIGNED => "the buffer is not aligned",
        abi::QUEUE_GONE => "the queue was lost",
        abi::NO_CID => "no free command identifier",
        abi::NO_ROOM => "no room in the queue",
        abi::STALE_TOKEN => "the command was already answered",
        abi::INVALID_BATCH => "batch larger than the queue",
        abi::TOO_LARGE => "above the controller's transfer limit",
        abi::OUT_OF_BUFFER => "the data leaves the registered buffer",
        abi::INVALID_FIELD => "an argument that no command can carry",
        abi::MISMATCH => "the data read is not the data expected",
        abi::SSD_LOST => "the SSD was given up",
        abi::READ_ONLY => "the lease does not permit writing",
        abi::OUT_OF_LEASE => "outside the lease",
        code => return format!("device library status {code}"),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_have_words() {
        for code in 1..=abi::OUT_OF_LEASE {
            let text = describe_status(abi::STATUS_LIBRARY | code);
            assert!(!text.starts_with("device library"), "{text}");
        }
        assert_eq!(describe_status(abi::STATUS_LIBRARY | 999), "device library status 999");
        assert!(describe_status(0x280).len() > 3, "the controller's statuses have names");
    }
}
