//! Statuses in words.

use warpbell_kernels::abi;
use warpbell_nvme::Status;

/// What the status of a finished I/O says: the controller's words, or the device library's.
pub fn describe_status(status: u32) -> String {
    if status & abi::STATUS_LIBRARY == 0 {
        return Status::from_bits(status as u16).to_string();
    }
    let text = match status & !abi::STATUS_LIBRARY {
        abi::STATUS_TIMED_OUT => "deadline passed with the command in flight",
        abi::STATUS_NOT_SUBMITTED => "deadline passed before the command was submitted",
        abi::STATUS_ABORTED => "stopped before submission",
        abi::STATUS_OUT_OF_RANGE => "the extent leaves the namespace",
        abi::STATUS_MISALIGNED => "the buffer is not aligned",
        abi::STATUS_QUEUE_GONE => "the queue was lost",
        abi::STATUS_NO_CID => "no free command identifier",
        abi::STATUS_NO_ROOM => "no room in the queue",
        abi::STATUS_STALE_TOKEN => "the command was already answered",
        abi::STATUS_INVALID_BATCH => "batch larger than the queue",
        abi::STATUS_TOO_LARGE => "above the controller's transfer limit",
        abi::STATUS_OUT_OF_BUFFER => "the data leaves the registered buffer",
        abi::STATUS_INVALID_FIELD => "an argument that no command can carry",
        abi::STATUS_MISMATCH => "the data read is not the data expected",
        abi::STATUS_SSD_LOST => "the SSD was given up",
        abi::STATUS_READ_ONLY => "the lease does not permit writing",
        abi::STATUS_OUT_OF_LEASE => "outside the lease",
        code => return format!("device library status {code}"),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_have_words() {
        for code in 1..=abi::STATUS_OUT_OF_LEASE {
            let text = describe_status(abi::STATUS_LIBRARY | code);
            assert!(!text.starts_with("device library"), "{text}");
        }
        assert_eq!(describe_status(abi::STATUS_LIBRARY | 999), "device library status 999");
        assert!(describe_status(0x280).len() > 3, "the controller's statuses have names");
    }
}
