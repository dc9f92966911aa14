//! Data pointers (PRP, SGL) of the host's commands.

use warpbell_kernels::abi::BufferRef;
use warpbell_nvme::{SglDescriptor, Sqe};

use crate::DataPointerKind;

/// Bytes of a controller memory page.
const PAGE: u64 = 4096;
/// Entries of the largest PRP list: with it a command moves 1 MiB.
const LIST_ENTRIES: u64 = 256;

/// Data pointers to parts of one registered buffer.
#[derive(Clone, Copy, Debug)]
pub struct DataPointers {
    buffer: BufferRef,
    by: DataPointerKind,
}

impl DataPointers {
    /// Parts of `buffer`.
    pub fn new(buffer: BufferRef, by: DataPointerKind) -> DataPointers {
        DataPointers { buffer, by }
    }

    /// The most bytes of one command that this form describes.
    pub fn max_bytes(by: DataPointerKind) -> u64 {
        match by {
            DataPointerKind::Sgl => u64::from(u32::MAX),
            DataPointerKind::Prp => LIST_ENTRIES * PAGE,
        }
    }

    /// `sqe` with `bytes` bytes of data from `offset` on.
    // Always, as `IoQueue::push_with`.
    #[inline(always)]
    pub fn attach(&self, mut sqe: Sqe, offset: u64, bytes: u32) -> Sqe {
        let iova = self.buffer.iova + offset;
        match self.by {
            DataPointerKind::Sgl => sqe.set_sgl(SglDescriptor::data_block(iova, bytes)),
            DataPointerKind::Prp => sqe.set_prp(iova, self.second(offset, u64::from(bytes))),
        }
        sqe
    }

    /// PRP2: nothing, the second page, or the list of all pages but the first. The buffer's table
    /// holds the addresses of pages 256 i to 256 i + 511 in its page i.
    fn second(&self, offset: u64, bytes: u64) -> u64 {
        let start = (self.buffer.iova & (PAGE - 1)) + offset;
        let (first, last) = (start / PAGE, (start + bytes - 1) / PAGE);
        match last - first {
            0 => 0,
            1 => (self.buffer.iova & !(PAGE - 1)) + last * PAGE,
            _ => self.buffer.prp_iova + ((first + 1) >> 8) * PAGE + ((first + 1) & 255) * 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prps_of_one_two_and_many_pages() {
        let buffer = BufferRef { iova: 0x10_0000, prp_iova: 0x90_0000, bytes: 8 << 20, ..BufferRef::new() };
        let map = DataPointers::new(buffer, DataPointerKind::Prp);
        let prps = |offset, bytes| {
            let sqe = map.attach(Sqe::zeroed(), offset, bytes);
            (sqe.prp1(), sqe.prp2())
        };
        assert_eq!(prps(512, 512), (0x10_0200, 0));
        assert_eq!(prps(0, 8192), (0x10_0000, 0x10_1000));
        assert_eq!(prps(3584, 1024), (0x10_0e00, 0x10_1000));
        assert_eq!(prps(0, 8193), (0x10_0000, 0x90_0000 + 8));
        assert_eq!(prps(255 * 4096, 3 * 4096), (0x10_0000 + 255 * 4096, 0x90_0000 + 4096));
    }

    #[test]
    fn one_sgl_descriptor() {
        let buffer = BufferRef { iova: 0x10_0000, bytes: 8 << 20, ..BufferRef::new() };
        let sqe = DataPointers::new(buffer, DataPointerKind::Sgl).attach(Sqe::zeroed(), 512, 1 << 20);
        assert_eq!((sqe.sgl().address, sqe.sgl().length), (0x10_0200, 1 << 20));
    }
}
