//! Scatter gather lists (Base 2.0, 4.1.2).

use warpbell_nvme::Status;
use warpbell_nvme::data::{SglDescriptor, SglSubtype, SglType};
use zerocopy::FromBytes;

use super::{Direction, Segment, Walk};
use crate::checker::Rule;
use crate::engine::{Refused, never};

/// Bytes of a descriptor.
const DESCRIPTOR: usize = size_of::<SglDescriptor>();
/// Descriptors read from a segment at a time.
const CHUNK: usize = 32;
/// Most descriptors of one command: lists that do not end are found this way.
const MOST: usize = 1 << 17;

/// A segment of descriptors to read next.
struct Next {
    address: u64,
    len: usize,
    last: bool,
}

impl Walk<'_> {
    /// Walks the descriptor in the command, and the segments that it leads to, for exactly `len` bytes.
    pub(super) fn sgl(&mut self, len: usize) -> Result<(), Refused> {
        let mut rest = len;
        let mut next = self.descriptor(self.command.sqe.sgl(), &mut rest)?;
        let mut seen = 0;
        while let Some(segment) = next {
            seen += segment.len / DESCRIPTOR;
            if seen > MOST {
                return Err(self.bad(Status::INVALID_SGL_DESCRIPTOR_COUNT, "more than 131072 descriptors"));
            }
            next = self.segment(segment, &mut rest)?;
        }
        if rest > 0 {
            return Err(self.length(format_args!("the SGL is {rest} bytes shorter than the data of {len}")));
        }
        Ok(())
    }

    /// Walks the descriptors of one segment; returns the segment that its last descriptor leads to.
    fn segment(&mut self, segment: Next, rest: &mut usize) -> Result<Option<Next>, Refused> {
        let mut bytes = [0; CHUNK * DESCRIPTOR];
        let mut done = 0;
        while done < segment.len {
            let piece = bytes.len().min(segment.len - done);
            self.fetch(segment.address + done as u64, &mut bytes[..piece])?;
            for raw in bytes[..piece].as_chunks::<DESCRIPTOR>().0 {
                done += DESCRIPTOR;
                let descriptor = SglDescriptor::read_from_bytes(raw).unwrap_or_default();
                let Some(next) = self.descriptor(descriptor, rest)? else { continue };
                if segment.last {
                    let what = "a last segment leads to another segment";
                    return Err(self.bad(Status::INVALID_SGL_SEGMENT_DESCRIPTOR, what));
                }
                if done < segment.len {
                    let what = "a segment descriptor that is not the last of its segment";
                    return Err(self.bad(Status::INVALID_SGL_DESCRIPTOR_COUNT, what));
                }
                return Ok(Some(next));
            }
        }
        if !segment.last {
            let what = "a segment that is not the last leads nowhere";
            return Err(self.bad(Status::INVALID_SGL_SEGMENT_DESCRIPTOR, what));
        }
        Ok(None)
    }

    /// Takes one descriptor; returns the segment that it leads to, if it does.
    fn descriptor(&mut self, descriptor: SglDescriptor, rest: &mut usize) -> Result<Option<Next>, Refused> {
        if descriptor.subtype() != SglSubtype::ADDRESS {
            let what = format!("subtype {} is not supported", descriptor.subtype());
            return Err(self.bad(Status::INVALID_SGL_DESCRIPTOR_TYPE, what));
        }
        if descriptor.rsvd != [0; 3] {
            self.violation(
                Rule::ReservedField,
                format_args!("SGL descriptor bytes 14:12 {:x?}", descriptor.rsvd),
            );
        }
        let len = descriptor.length as usize;
        match descriptor.sgl_type() {
            SglType::DATA_BLOCK => self.data(descriptor.address, len, rest).map(|()| None),
            SglType::BIT_BUCKET => {
                if descriptor.address != 0 {
                    let what = format_args!("SGL bit bucket bytes 7:0 {:#x}", descriptor.address);
                    self.violation(Rule::ReservedField, what);
                }
                self.bucket(len, rest).map(|()| None)
            }
            SglType::SEGMENT => self.lead(descriptor, false).map(Some),
            SglType::LAST_SEGMENT => self.lead(descriptor, true).map(Some),
            other => Err(self.bad(Status::INVALID_SGL_DESCRIPTOR_TYPE, format!("{other} is not supported"))),
        }
    }

    fn data(&mut self, address: u64, len: usize, rest: &mut usize) -> Result<(), Refused> {
        if len > *rest {
            return Err(self.length(format_args!("a data block of {len} bytes where {rest} are left")));
        }
        *rest -= len;
        if len == 0 { Ok(()) } else { self.push(address, len) }
    }

    /// Bytes that the client does not want; in a write they count nothing.
    fn bucket(&mut self, len: usize, rest: &mut usize) -> Result<(), Refused> {
        if self.direction == Direction::FromClient || len == 0 {
            return Ok(());
        }
        if len > *rest {
            return Err(self.length(format_args!("a bit bucket of {len} bytes where {rest} are left")));
        }
        *rest -= len;
        self.segments.push(Segment { iova: 0, len, bucket: true });
        Ok(())
    }

    fn lead(&self, descriptor: SglDescriptor, last: bool) -> Result<Next, Refused> {
        let (address, len) = (descriptor.address, descriptor.length as usize);
        if len == 0 || !len.is_multiple_of(DESCRIPTOR) {
            let what = format!("segment length {len} is not a positive multiple of 16");
            return Err(self.bad(Status::INVALID_SGL_SEGMENT_DESCRIPTOR, what));
        }
        if address & 7 != 0 {
            let what = format!("segment address {address:#x} is not qword aligned");
            return Err(self.bad(Status::INVALID_SGL_SEGMENT_DESCRIPTOR, what));
        }
        Ok(Next { address, len, last })
    }

    #[cold]
    fn bad(&self, status: Status, what: impl std::fmt::Display) -> Refused {
        self.violation(Rule::SglDescriptor, what);
        never(status)
    }

    #[cold]
    fn length(&self, what: impl std::fmt::Display) -> Refused {
        self.violation(Rule::SglLength, what);
        never(Status::INVALID_SGL_DATA_LENGTH)
    }
}
