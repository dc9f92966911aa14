// Batches of a block's threads and of a warp's: io_batch in a block's shared memory.
#pragma once

#include "cooperative.cuh"
#include "warp.cuh"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

constexpr u32 batch_slots = 64;
using checked_batch = io_batch<batch_slots>;

// Threads fill, ask for and look at slots of other threads; slots are 0 to 3 blocks. The host lets a command
// move few blocks, so that some take several. A block's requests are sent by all its warps, then by the first
// ones alone.
template <sharing Mode> class batches_check : check_warp<Mode> {
  public:
    WARPBELL_D explicit batches_check(const warpbell_check_args& args)
        : check_warp<Mode>(args, warp_number()), of_block_(args, port::block_index() * warps_per_block()) {}

    WARPBELL_D void run() {
        auto* storage = static_cast<checked_batch::storage*>(port::block_memory());
        u32* ends = reinterpret_cast<u32*>(storage + warps_per_block());
        port::store_relaxed_any(ends, 0);
        this_block().sync();
        for (u32 round = 0; goes_on_together(round, ends); ++round) {
            const u32 warps = warps_per_block(), version = 1u + (warps + 1u) * round;
            WARPBELL_NO_UNROLL
            for (u32 submitters = warps; submitters != 0; --submitters) {
                pass(cooperative_block(), storage[0], of_block_, version + submitters, submitters);
                this_block().sync();
            }
            pass(this_warp(), storage[port::thread_index() / WARPBELL_WARP_LANES], *this, version, warps);
            this_block().sync();
        }
        this->finish();
    }

  private:
    using check_warp<Mode>::found_, check_warp<Mode>::s_;
    static constexpr u32 room = 4; // blocks of a slot

    // Threads of a block wait for each other: all go on, or none does.
    WARPBELL_D bool goes_on_together(u32 round, u32* ends) const {
        if (!this->goes_on(round)) {
            port::store_relaxed_any(ends, 1);
        }
        this_block().sync();
        return port::load_relaxed_any(ends) == 0;
    }

    WARPBELL_D static u32 blocks_of(u32 slot) { return slot % room; }

    template <class Group>
    WARPBELL_D void ask(checked_batch& batch, const Group& group, const check_region& where, u32 version,
                        bool writes) {
        for (u32 i = group.thread_rank(); i < batch_slots; i += group.size()) {
            const u32 fills = (i + 17u) % batch_slots * room;
            where.fill(fills, fills + room, 1, writes ? version : this->zeros);
            const u32 slot = (i * 7u + 3u) % batch_slots, count = blocks_of(slot);
            const extent at = where.blocks(slot * room, count);
            const dma_span data = where.data(slot * room, count);
            const status added =
                count == 0 ? batch.flush(slot)
                : count == 1u
                    ? batch.add(slot, {writes ? opcode::write : opcode::read, at, data, command::fua})
                : writes ? batch.write(slot, at, data)
                         : batch.read(slot, at, data);
            found_.told(1, added);
        }
    }

    template <class Group>
    WARPBELL_D void look(const checked_batch& batch, const Group& group, const check_region& where,
                         u32 version) {
        for (u32 i = group.thread_rank(); i < batch_slots; i += group.size()) {
            const u32 slot = (i * 5u + 11u) % batch_slots, from = slot * room, count = blocks_of(slot);
            const batch_answer said = batch[slot];
            found_.judge(3, said.result,
                         said.result.ok() && said.bytes == static_cast<u64>(count) * s_.block_bytes());
            found_.saw(4, where.holds(from, from + count, 1, version));
        }
        group.sync(); // answers are read before slots are used again
    }

    // Of a block the first `submitters` warps have sessions in this, the others call without one.
    template <class Group>
    WARPBELL_D void pass(const Group& group, checked_batch::storage& storage, const check_region& where,
                         u32 version, u32 submitters) {
        checked_batch batch(group, storage, submitters);
        const bool alone = group.thread_rank() / WARPBELL_WARP_LANES >= submitters;
        WARPBELL_NO_UNROLL
        for (u32 phase = 0; phase < 2u; ++phase) {
            ask(batch, group, where, version, phase == 0);
            if (alone) {
                batch.submit(group);
                found_.told(2, batch.wait(group));
            } else {
                batch.submit(group, s_);
                found_.told(2, batch.wait(group, s_));
            }
            look(batch, group, where, version);
        }
    }

    const check_region of_block_;
};

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
