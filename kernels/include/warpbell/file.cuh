// Files: reads by their offset, where the host says in which extents they lie. `warpbell::FileTable` makes
// the table of a file.
//
//   const wb::file f(args.file);
//   const wb::status s = wb::read_each(warp, ssd, f, wb::optional<wb::u64>(offset), mine);
//
// | call                            | arguments                                | status             |
// | ------------------------------- | ---------------------------------------- | ------------------ |
// | read_each (group, session, ..)  | each lane its own; nullopt: takes part   | each lane its own  |
// | read (group, session, ..)       | the same in each lane                    | the same in each   |
// | file::find                      | any lane                                 | where a block lies |
//
// `offset` and the bytes of the buffer are whole blocks of the namespace. Holes, and what is behind the end
// of the file in its last block, read as zeroes: lanes store them, so that kernels must reach the buffer. An
// extent is found by a bucket of the table, then by binary search in what the bucket names. A read that meets
// several extents is one command after the other, each with the deadline of io.cuh; the status is the first
// failure's.
//
// misaligned: not whole blocks, or data at no dword. out_of_range: blocks behind the last one of the file.
// out_of_buffer: as in io.cuh. invalid_field: the table is of another ABI, or of a namespace with blocks of
// another size.
#pragma once

#include "abi_file.h"
#include "io.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

// Where blocks of a file lie together, or are a hole.
struct file_place {
    u64 lba;
    u64 blocks; // from the one that was looked for on, at least 1
    bool hole;
};

// A file. Refers to the kernel's warpbell_file_ref, which must outlive it. Trivially copyable.
class file {
  public:
    WARPBELL_HD explicit file(const warpbell_file_ref& ref) : ref_(&ref) {}
    explicit file(const warpbell_file_ref&&) = delete;

    WARPBELL_HD u64 bytes() const { return ref_->bytes; }
    WARPBELL_HD u64 blocks() const {
        return (ref_->bytes >> ref_->block_shift) + ((ref_->bytes & (block_bytes() - 1u)) != 0);
    }
    WARPBELL_HD u32 block_bytes() const { return 1u << ref_->block_shift; }
    WARPBELL_HD u32 block_shift() const { return ref_->block_shift; }
    WARPBELL_HD bool fits() const {
        return ref_->abi_version == WARPBELL_ABI_VERSION && ref_->size == sizeof(*ref_);
    }

    // Where a block of the file lies. A hole goes on up to the next extent, the last one for ever. There are
    // at most twice as many buckets as extents, so that most name one or two: a search takes three loads, one
    // after the other, and of n extents in one bucket log2(n) more.
    WARPBELL_D file_place find(u64 block) const {
        if (ref_->count == 0) {
            return {0, ~0ull, true};
        }
        const auto* extents = reinterpret_cast<const warpbell_file_extent*>(ref_->extents);
        if (mutate::file_block_before && block != 0) {
            --block;
        }
        const u32 at = last_until(extents, block);
        const warpbell_file_extent found = extents[at];
        if (block < found.first) {
            return {0, found.first - block, true};
        }
        const u64 within = block - found.first;
        if (within < found.blocks) {
            return {found.lba + within, mutate::file_seam_crossed ? ~0ull : found.blocks - within, false};
        }
        return {0, at + 1u < ref_->count ? extents[at + 1u].first - block : ~0ull, true};
    }

  private:
    // The last extent that begins at the block or before it; where none does, the first.
    WARPBELL_D u32 last_until(const warpbell_file_extent* extents, u64 block) const {
        const u64 far = block >> ref_->bucket_shift;
        const u32 last = ref_->bucket_count - 1u, bucket = far < last ? static_cast<u32>(far) : last;
        const u32* const begin = reinterpret_cast<const u32*>(ref_->buckets) + bucket;
        u32 at = begin[0];
        for (u32 rest = begin[1] - at + (mutate::file_bucket_short ? 0u : 1u); rest > 1u;) {
            const u32 half = rest / 2u;
            at += extents[at + half].first <= block ? half : 0u;
            rest -= half;
        }
        return at;
    }

    const warpbell_file_ref* ref_;
};

static_assert(__is_trivially_copyable(warpbell_file_ref) && __is_trivially_copyable(file));

// Reads to.bytes() bytes from `offset` of the file on. Lanes with nothing to do pass nullopt and get success.
template <class Group, sharing Mode, class Retry>
WARPBELL_D status read_each(const Group& group, session<Mode, Retry>& s, const file& f, optional<u64> offset,
                            const dma_span& to, u64 timeout_ns = 0);
// The same of all lanes together, each of which reads a part: of large reads as much as a command moves, at
// least. Of several failures one is answered.
template <class Group, sharing Mode, class Retry>
WARPBELL_D status read(const Group& group, session<Mode, Retry>& s, const file& f, u64 offset,
                       const dma_span& to, u64 timeout_ns = 0);

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell

#include "impl/file.cuh"
