//! Statuses in words.

use warpbell_kernels::abi;
use warpbell_nvme::Status;

/// What the status of a finished I/O says: the controller's words; or the name that the device library and its pages
/// have for it, and what it means.
pub fn describe_status(status: u32) -> String {
    if status & abi::STATUS_LIBRARY == 0 {
        return Status::from_bits(status as u16).to_string();
    }
    let text = match status & !abi::STATUS_LIBRARY {
        abi::STATUS_TIMED_OUT => "timed_out: deadline passed with the command in flight",
        abi::STATUS_NOT_SUBMITTED => "not_submitted: deadline passed before the command was submitted",
        abi::STATUS_ABORTED => "aborted: stopped before submission",
        abi::STATUS_OUT_OF_RANGE => "out_of_range: the extent leaves the namespace",
        abi::STATUS_MISALIGNED => "misaligned: the buffer is not aligned",
        abi::STATUS_QUEUE_GONE => "queue_lost: the queue was lost",
        abi::STATUS_NO_CID => "no_cid: no free command identifier",
        abi::STATUS_NO_ROOM => "no_room: no room in the queue",
        abi::STATUS_STALE_TOKEN => "stale_token: the command was already answered",
        abi::STATUS_INVALID_BATCH => "invalid_batch: batch larger than the queue",
        abi::STATUS_TOO_LARGE => "too_large: above the controller's transfer limit",
        abi::STATUS_OUT_OF_BUFFER => "out_of_buffer: the data leaves the registered buffer",
        abi::STATUS_INVALID_FIELD => "invalid_field: an argument that no command can carry",
        abi::STATUS_MISMATCH => "mismatch: the data read is not the data expected",
        abi::STATUS_SSD_LOST => "ssd_lost: the SSD was given up",
        abi::STATUS_READ_ONLY => "read_only: the lease does not permit writing",
        abi::STATUS_OUT_OF_LEASE => "out_of_lease: outside the lease",
        code => return format!("device library status {code}"),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has the name of each status, in `status::name`.
    const HEADER: &str = include_str!("../../../kernels/include/warpbell/status.cuh");

    #[test]
    fn both_kinds_have_words() {
        for code in 1..=abi::STATUS_OUT_OF_LEASE {
            let text = describe_status(abi::STATUS_LIBRARY | code);
            let (name, _) = text.split_once(": ").unwrap();
            assert!(HEADER.contains(&format!("return \"{name}\";")), "{text}");
        }
        assert_eq!(describe_status(abi::STATUS_LIBRARY | 999), "device library status 999");
        assert!(describe_status(0x280).len() > 3, "the controller's statuses have names");
    }
}
