//! What the host shares with kernels that use several SSDs as one. `abi_volume.h` says what each field is.

use super::{NamespaceRef, mirror};

mirror! {
    /// One SSD of a volume.
    versioned VolumeMember = "warpbell_volume_member" {
        /// Its namespace and queues.
        ns: NamespaceRef,
        /// Chunks of the volume that lie on it, from its block 0 on.
        chunks: u64,
        /// Its blocks in one block of the volume, as a binary logarithm.
        unit_shift: u32,
        /// From whoever runs the kernels.
        distance: u32,
    }
}

mirror! {
    /// What kernels did on one member.
    plain VolumeCounts = "warpbell_volume_counts" {
        /// Bytes read.
        bytes_read: u64,
        /// Bytes written.
        bytes_written: u64,
        /// Commands whose status was not success.
        errors: u64,
        /// The status of one of the last of them.
        error_status: u64,
        /// Zero.
        pad: [u64; 12],
    }
}

mirror! {
    /// Which replicas there are.
    plain VolumeState = "warpbell_volume_state" {
        /// Bit m: member m has everything that was written.
        present: u64,
        /// Bit m: reads go to other members, as long as there are any.
        avoided: u64,
        /// Zero.
        pad: [u64; 14],
    }
}

mirror! {
    /// Several SSDs as one.
    versioned VolumeRef = "warpbell_volume_ref" {
        /// Address of `VolumeMember[member_count]`.
        members: u64,
        /// Address of `VolumeCounts[member_count]`.
        counts: u64,
        /// Address of the [`VolumeState`].
        state: u64,
        /// Blocks of all whole chunks.
        blocks: u64,
        /// SSDs.
        member_count: u32,
        /// `VOLUME_STRIPE` and its like.
        layout: u32,
        /// The largest of its members'.
        block_shift: u32,
        /// Blocks of a chunk.
        chunk_blocks: u32,
        /// Blocks that each member takes in one command.
        piece_blocks: u32,
        /// `NAMESPACE_NO_COMPARE` and its like: of any member.
        flags: u32,
    }
}

mirror! {
    /// Memory that each member has mapped.
    versioned VolumeBufferRef = "warpbell_volume_buffer_ref" {
        /// Address of `BufferRef[member_count]`.
        parts: u64,
        /// Where kernels read and write it.
        data: u64,
        /// Bytes.
        bytes: u64,
        /// SSDs.
        member_count: u32,
        /// Zero.
        pad0: u32,
    }
}
