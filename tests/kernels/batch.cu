// Kernel `batch_requests_test`: batches of blocks of several warps, or of warps. Each group writes requests
// of its own and reads them back; data, requests and answers of a slot are those of different threads.
#include "src/common.cuh"

struct requests_args {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref buffer; // room for `slots` requests of each group
    uint64_t records;           // request_record[2][groups][slots]: of the writes, of the reads
    uint64_t notes;             // uint32_t[2][threads]: what wait returned
    uint64_t seed;
    uint64_t timeout_ns;
    uint32_t submitters; // warps of a block with a queue
    uint32_t flags;
};

struct request_record {
    uint32_t answers;
    uint32_t status;
    uint32_t wrong; // blocks
    uint32_t pad;
    uint64_t bytes;
};

namespace kernels {

constexpr u32 by_warp = 1;    // each warp is a group
constexpr u32 with_flush = 2; // one of the requests of each group
constexpr u32 with_retry = 4;
constexpr u32 refused = 8; // requests that are refused, of the first warp alone
constexpr u32 slots = 96;
constexpr u32 most_blocks = 5;

using batch_type = io_batch<slots>;

template <sharing Mode, class Retry, class Group> class batcher {
  public:
    // `ssd`: null in a warp without a queue.
    WARPBELL_D batcher(const requests_args& args, const Group& group, u32 number, session<Mode, Retry>* ssd)
        : args_(args), group_(group), number_(number), ssd_(ssd),
          batch_(group,
                 static_cast<batch_type::storage*>(
                     port::block_memory())[by_warps() ? port::thread_index() / 32u : 0],
                 args.submitters) {}

    WARPBELL_D void run() {
        for (u32 phase = 0; phase < 2; ++phase) {
            for (u32 i = group_.thread_rank(); i < slots; i += group_.size()) {
                fill((i + 17u) % slots, phase == 0);
                ask((i * 7u + 3u) % slots, phase == 0);
            }
            submit();
            const status all = wait();
            const u32 threads = port::grid_blocks() * port::block_threads();
            const u32 thread = port::block_index() * port::block_threads() + port::thread_index();
            reinterpret_cast<u32*>(args_.notes)[phase * threads + thread] = all.bits;
            for (u32 i = group_.thread_rank(); i < slots; i += group_.size()) {
                note((i * 5u + 11u) % slots, phase);
            }
            group_.sync(); // answers are read before slots are used again
        }
    }

    // What is refused, and when.
    WARPBELL_D void run_refused() {
        const dma_span all(args_.buffer), some = all.subspan(0, 512);
        if (group_.thread_rank() == 0) {
            record(0, 10).status = batch_.read(0, {lba(args_.ns.blocks), 1}, some).bits;
            record(0, 11).status = batch_.read(1, {lba(0), 0}, some).bits;
            record(0, 12).status = batch_.read(2, {lba(0), 1}, some).bits;
            record(0, 13).status = batch_.read(3, {lba(0), 2}, some).bits;
            record(0, 14).status = batch_.read(4, {lba(0), 1}, all.subspan(1, 512)).bits;
            record(0, 15).status = batch_.read(2, {lba(1), 1}, some).bits;
            record(0, 16).status = batch_.read(slots, {lba(0), 1}, some).bits;
            record(0, 17).status =
                batch_.add(5, {opcode::dataset_management, extent{lba(0), 1}, some, 0}).bits;
            record(0, 18).status = batch_.read(5, {lba(0), 1}, all.subspan(all.bytes(), 512)).bits;
            record(0, 19).status = batch_.add(6, command::write_zeroes({lba(0), 1u << 31})).bits;
        }
        submit();
        record(0, 20).status = wait().bits;
        for (u32 slot = 0; slot < 8u; ++slot) {
            record(0, slot).status = batch_[slot].result.bits;
        }
        record(0, 21).status = batch_[slots].result.bits;
    }

  private:
    WARPBELL_D bool by_warps() const { return (args_.flags & by_warp) != 0; }
    WARPBELL_D void submit() {
        ssd_ != nullptr ? batch_.submit(group_, *ssd_, args_.timeout_ns) : batch_.submit(group_);
    }
    WARPBELL_D status wait() { return ssd_ != nullptr ? batch_.wait(group_, *ssd_) : batch_.wait(group_); }

    WARPBELL_D static u32 blocks_of(u32 slot) { return slot % 7u == 6u ? 0u : 1u + slot % most_blocks; }
    WARPBELL_D u64 first_of(u32 slot) const {
        return (static_cast<u64>(number_) * slots + slot) * most_blocks;
    }
    WARPBELL_D u64 content(u64 block) const { return splitmix64(args_.seed ^ block); }
    WARPBELL_D dma_span data(u32 slot) const {
        const u64 bytes = 1ull << args_.ns.block_shift;
        return dma_span(args_.buffer).subspan(first_of(slot) * bytes, blocks_of(slot) * bytes);
    }
    WARPBELL_D u64* word(u32 slot, u32 block) const {
        return data(slot).template data<u64>() + (static_cast<u64>(block) << args_.ns.block_shift) / 8u;
    }
    WARPBELL_D request_record& record(u32 phase, u32 slot) const {
        const u32 groups = by_warps() ? warps_of_launch() : port::grid_blocks();
        const u64 at = (static_cast<u64>(phase) * groups + number_) * slots + slot;
        return reinterpret_cast<request_record*>(args_.records)[at];
    }

    WARPBELL_D void fill(u32 slot, bool writes) const {
        for (u32 block = 0; block < blocks_of(slot); ++block) {
            port::store_relaxed_gpu(word(slot, block), writes ? content(first_of(slot) + block) : 0);
        }
    }
    WARPBELL_D void ask(u32 slot, bool writes) {
        const extent where{lba(first_of(slot)), blocks_of(slot)};
        status said;
        if (where.blocks != 0) {
            said = writes ? batch_.write(slot, where, data(slot)) : batch_.read(slot, where, data(slot));
        } else if (slot == 90u && writes && (args_.flags & with_flush) != 0) {
            said = batch_.flush(slot);
        }
        if (!said.ok()) {
            record(writes ? 0 : 1, slot).pad = said.bits;
        }
    }
    WARPBELL_D void note(u32 slot, u32 phase) const {
        const batch_answer said = batch_[slot];
        request_record& noted = record(phase, slot);
        ++noted.answers;
        noted.status = said.result.bits;
        noted.bytes = said.bytes;
        const u64 moved = said.bytes >> args_.ns.block_shift;
        for (u32 block = 0; block < moved; ++block) {
            const u64 found = port::load_relaxed_gpu(reinterpret_cast<const u32*>(word(slot, block)));
            noted.wrong += found != (content(first_of(slot) + block) & 0xffffffffu);
        }
    }

    const requests_args& args_;
    const Group group_;
    const u32 number_;
    session<Mode, Retry>* ssd_;
    batch_type batch_;
};

template <sharing Mode, class Retry, class Group>
WARPBELL_D void run_batcher(const requests_args& args, const Group& group, u32 number,
                            session<Mode, Retry>* ssd) {
    batcher<Mode, Retry, Group> work(args, group, number, ssd);
    (args.flags & refused) != 0 ? work.run_refused() : work.run();
}

template <sharing Mode, class Retry> WARPBELL_D void run_batches(const requests_args& args) {
    const u32 rank = port::thread_index() / WARPBELL_WARP_LANES;
    if ((args.flags & by_warp) != 0) {
        session<Mode, Retry> ssd(this_warp(), args.ns, warp_number());
        run_batcher(args, this_warp(), warp_number(), &ssd);
        ssd.detach(this_warp());
    } else if (rank < args.submitters) {
        session<Mode, Retry> ssd(this_warp(), args.ns, port::block_index() * args.submitters + rank);
        run_batcher(args, this_block(), port::block_index(), &ssd);
        ssd.detach(this_warp());
    } else {
        run_batcher<Mode, Retry>(args, this_block(), port::block_index(), nullptr);
    }
}

template <sharing Mode> WARPBELL_D void run_batches_of(const requests_args& args) {
    (args.flags & with_retry) != 0 ? run_batches<Mode, retry>(args) : run_batches<Mode, no_retry>(args);
}

} // namespace kernels

WARPBELL_KERNEL(batch_requests_test, requests_args) {
    if (args.ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        kernels::run_batches_of<wb::sharing::exclusive>(args);
    } else {
        kernels::run_batches_of<wb::sharing::shared>(args);
    }
}
