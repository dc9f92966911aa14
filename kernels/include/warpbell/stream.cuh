// Tiles of a namespace or a volume, on their way from the SSD to a ring in memory of the GPU, from there to a
// block's shared memory, and to whoever computes: in an order that is known beforehand.
//
//   const wb::listed_tiles order(args.schedule);
//   // 3 slots in the ring, 2 stages in shared memory.
//   wb::tile_stream<decltype(ssd), 3, 2> tiles(block, order, ssd, ring, port::block_memory());
//   wb::status s = tiles.for_each(block, [&](const wb::stream_tile& tile) { use(tile.data<float>()); });
//   const wb::status left = tiles.detach(block);
//
// | call                   | who calls | answer                                                          |
// | ---------------------- | --------- | --------------------------------------------------------------- |
// | for_each (group, use)  | the group | of all tiles: success, or a failure                             |
// | producer_acquire       | the group | the next tile may be loaded; no_room: a release comes first     |
// | producer_commit        | the group | its load is on its way; what is refused is the tile's answer    |
// | consumer_wait          | the group | the oldest tile that was committed: here, or why it is not      |
// | consumer_release       | the group | its slot and its stage are free                                 |
// | detach                 | the group | of the loads that nobody waited for: success, or a failure       |
//
// The group is a block or a whole warp; each of its threads makes each call, with the same arguments. The
// first warp's source is used: where the group is a block, its other warps' may be of no queue. Several tiles
// may be acquired and committed, and waited for, before the first of them is released, in that order.
//
// A tile that cannot be loaded comes in its turn, with its status. Where the SSD may still write to its slot
// (status::buffer_in_use), no other tile is loaded into that slot: those that the schedule has there are
// answered alike. Every wait for a load ends by its deadline, the queue's unless the call names one.
//
// A load takes a command id of each lane that reads a part of it. Where a lane has fewer ids than there are
// slots (AttachOptions::commands_per_lane), a commit waits for the oldest load first: as many are on their
// way at once.
//
// A tile is there for every thread of the group from consumer_wait to consumer_release. From the ring to
// shared memory it is copied by the engine for that on GPUs from compute capability 9.0 on, by asynchronous
// copies from 8.0 on, and by the threads themselves before. The copy begins when the load is found to be
// done, at a wait for this tile or one before it.
#pragma once

#include "abi_stream.h"
#include "volume.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

// ---- schedules: which tile comes when, and where it lies. A type with these three functions; yours may be
// one.

// A list that the host made, or read from a file (warpbell::TileSchedule).
class listed_tiles {
  public:
    WARPBELL_D explicit listed_tiles(const warpbell_schedule_ref& ref) : ref_(ref) {}
    WARPBELL_D u32 steps() const { return ref_.step_count; }
    WARPBELL_D u32 slot_bytes() const { return ref_.slot_bytes; }
    WARPBELL_D warpbell_tile_step step(u32 index, u32) const {
        return reinterpret_cast<const warpbell_tile_step*>(ref_.steps)[index];
    }

  private:
    warpbell_schedule_ref ref_;
};

// Tiles by a rule, which need no list: each once, the ring's slots in turn.
struct ruled_tiles {
    u64 first_block;  // of the first tile
    u64 step_blocks;  // from a tile to the one beside it
    u64 band_blocks;  // from a tile to the one below it
    u64 row_stride;   // from a row of a tile to the next
    u32 band_tiles;   // beside each other
    u32 count;        // tiles
    u32 blocks, rows; // of a tile
    u32 bytes;        // of a slot

    // One behind the other.
    WARPBELL_D static ruled_tiles sequential(u64 first_block, u32 blocks, u32 count, u32 block_bytes) {
        return strided(first_block, blocks, blocks, count, block_bytes);
    }
    // `stride` blocks from one to the next.
    WARPBELL_D static ruled_tiles strided(u64 first_block, u64 stride, u32 blocks, u32 count,
                                          u32 block_bytes) {
        return {first_block, stride, 0, 0, ~0u, count, blocks, 1, blocks * block_bytes};
    }
    // Of a matrix whose rows are `row_blocks` blocks, `across` tiles of `rows` by `blocks` beside each other,
    // and `down` below each other: band after band.
    WARPBELL_D static ruled_tiles matrix(u64 first_block, u64 row_blocks, u32 blocks, u32 rows, u32 across,
                                         u32 down, u32 block_bytes) {
        return {first_block, blocks, row_blocks * rows,          row_blocks, across, across * down,
                blocks,      rows,   blocks * rows * block_bytes};
    }

    WARPBELL_D u32 steps() const { return count; }
    WARPBELL_D u32 slot_bytes() const { return bytes; }
    WARPBELL_D warpbell_tile_step step(u32 index, u32 slots) const {
        warpbell_tile_step step = {};
        step.tile = index;
        step.first_block = first_block + index / band_tiles * band_blocks + index % band_tiles * step_blocks;
        step.row_stride = row_stride;
        step.blocks = blocks;
        step.rows = rows;
        step.slot = index % slots;
        step.after = index < slots ? 0 : index - slots + 1u;
        return step;
    }
};

// ---- tiles

// A tile in shared memory, or why it is not there. Alike in all threads.
class stream_tile {
  public:
    WARPBELL_D stream_tile(const warpbell_tile_step& step, const void* data, u32 bytes, status result)
        : data_(data), step_(step), bytes_(bytes), result_(result) {}
    // It is here. It is not: `result` says why.
    WARPBELL_D explicit operator bool() const { return result_.ok(); }
    WARPBELL_D status result() const { return result_; }
    // Row after row.
    template <class T> WARPBELL_D const T* data() const { return static_cast<const T*>(data_); }
    WARPBELL_D u32 bytes() const { return bytes_; }
    // Which one, as the schedule numbers them.
    WARPBELL_D u64 number() const { return step_.tile; }
    // Where it came from, and which slot it lies in.
    WARPBELL_D const warpbell_tile_step& step() const { return step_; }

  private:
    const void* data_;
    warpbell_tile_step step_;
    u32 bytes_;
    status result_;
};

namespace detail {

// What a stream loads from. `start` begins a lane's part of a tile, or does it: of a tile of one row a part,
// else a row. An answer that is there before the tile is waited for goes into `said`.
template <class Source> struct tile_source;
template <sharing Mode, class Retry> struct tile_source<session<Mode, Retry>> {
    using source_type = session<Mode, Retry>;
    using span_type = dma_span;
    template <class Warp>
    WARPBELL_D static io_token start(const Warp& warp, source_type& s, const warpbell_tile_step& step,
                                     const dma_span& to, u64 timeout_ns, status& said);
    // This lane has no command id for another load.
    WARPBELL_D static bool starved(source_type& s) { return s.queue().free_ids() == 0; }
    template <class Warp>
    WARPBELL_D static bool poll(const Warp& warp, source_type& s, io_token& token, status& said);
    template <class Warp>
    WARPBELL_D static status finish(const Warp& warp, source_type& s, io_token&& token, u64 timeout_ns) {
        return s.queue().wait(warp, move(token), timeout_ns);
    }
};
// Volumes have no reads that go on by themselves: a tile is loaded when it is committed.
template <sharing Mode, u32 Members, class Map, class Retry>
struct tile_source<volume<Mode, Members, Map, Retry>> {
    using source_type = volume<Mode, Members, Map, Retry>;
    using span_type = volume_span;
    template <class Warp>
    WARPBELL_D static io_token start(const Warp& warp, source_type& v, const warpbell_tile_step& step,
                                     const volume_span& to, u64 timeout_ns, status& said);
    WARPBELL_D static bool starved(source_type&) { return false; }
    template <class Warp> WARPBELL_D static bool poll(const Warp&, source_type&, io_token&, status&) {
        return true;
    }
    template <class Warp> WARPBELL_D static status finish(const Warp&, source_type&, io_token&&, u64) {
        return status();
    }
};

} // namespace detail

// ---- the stream

// `Slots`: tiles in the ring, 1 to 32. `Stages`: in shared memory, 1 to 32; more than slots are of no use.
template <class Source, u32 Slots, u32 Stages = Slots, class Schedule = listed_tiles> class tile_stream {
    static_assert(Slots >= 1 && Slots <= 32 && Stages >= 1 && Stages <= 32, "1 to 32 slots and stages");
    using backing = detail::tile_source<Source>;

  public:
    using span_type = typename backing::span_type;

    // What lies before the stages in shared memory. Its content is the library's.
    struct storage {
        port::copy_barrier barriers[Stages];
        u64 tokens[Slots][WARPBELL_WARP_LANES]; // of each slot's load: each lane of the first warp its own
        u32 said[Slots][WARPBELL_WARP_LANES];   // what the lane was told of it so far
        u32 results[Slots];                     // of each slot's load
        u32 loaded;                             // steps
        u32 late;                               // a copy was not done in time
    };
    // Shared memory that a stream takes: its storage, and its stages behind that.
    WARPBELL_HD static constexpr u32 shared_bytes(u32 slot_bytes) {
        return stages_at() + Stages * slot_bytes;
    }

    // `ring`: Slots * slot_bytes, of the source's. `shared`: shared_bytes(slot_bytes), aligned to 128 bytes.
    // The source must outlive it.
    template <class Group>
    WARPBELL_D tile_stream(const Group& group, const Schedule& schedule, Source& source,
                           const span_type& ring, void* shared);

    // Loads as far ahead as the ring has room, and calls use(tile) in each thread for each step of the
    // schedule in turn, those that failed among them. Success, or: a failure that leaves its slot to the SSD,
    // else the first.
    template <class Group, class Use>
    WARPBELL_D status for_each(const Group& group, Use use, u64 timeout_ns = 0);

    // out_of_range: all tiles of the schedule were committed.
    template <class Group> WARPBELL_D status producer_acquire(const Group& group);
    // invalid_field: none was acquired.
    template <class Group> WARPBELL_D status producer_commit(const Group& group, u64 timeout_ns = 0);
    // invalid_field, as the tile's result: none was committed that was not waited for.
    template <class Group> WARPBELL_D stream_tile consumer_wait(const Group& group, u64 timeout_ns = 0);
    // invalid_field: none was waited for that was not released.
    template <class Group> WARPBELL_D status consumer_release(const Group& group);
    // Last call. Waits for the loads that nobody waited for, each until its deadline. Of these, success, or:
    // a failure that leaves its slot to the SSD (the ring is not to be used for anything else then), else the
    // first.
    template <class Group> WARPBELL_D status detach(const Group& group, u64 timeout_ns = 0);

    // Steps of the schedule that were loaded so far, and that found their tile in the ring.
    WARPBELL_D u32 loads() const { return loads_; }
    WARPBELL_D u32 reuses() const { return committed_ - loads_; }

  private:
    WARPBELL_HD static constexpr u32 stages_at() { return (sizeof(storage) + 127u) / 128u * 128u; }
    WARPBELL_D u8* stage(u32 step) const {
        return reinterpret_cast<u8*>(&shared_) + stages_at() + step % Stages * schedule_.slot_bytes();
    }
    WARPBELL_D span_type slot(u32 number) const {
        return ring_.subspan(static_cast<u64>(number) * schedule_.slot_bytes(), schedule_.slot_bytes());
    }
    WARPBELL_D warpbell_tile_step step(u32 index) const { return schedule_.step(index, Slots); }
    WARPBELL_D static bool is_resident(const warpbell_tile_step& step) {
        return (step.flags & WARPBELL_TILE_RESIDENT) != 0 && !mutate::stream_resident_loaded;
    }
    WARPBELL_D u64 bytes_of(const warpbell_tile_step& step) const {
        return static_cast<u64>(step.blocks) * step.rows * source_.block_bytes();
    }
    WARPBELL_D status result_of(u32 slot) const {
        return status::from_bits(port::load_relaxed_any(&shared_.results[slot]));
    }
    WARPBELL_D status check(const warpbell_tile_step& step) const;
    WARPBELL_D status in_ring(const warpbell_tile_step& step) const;
    template <class Warp>
    WARPBELL_D void start(const Warp& warp, const warpbell_tile_step& step, u64 timeout_ns);
    template <class Warp> WARPBELL_D bool poll(const Warp& warp, u32 slot);
    template <class Warp> WARPBELL_D void finish(const Warp& warp, u32 slot, u64 timeout_ns);
    template <class Warp> WARPBELL_D void settle(const Warp& warp, u64 timeout_ns);
    template <class Group> WARPBELL_D void take_loads(const Group& group, u32 end, u64 timeout_ns);
    template <class Group> WARPBELL_D void begin_copies(const Group& group);
    template <class Group> WARPBELL_D status await_copy(const Group& group, u32 stage);

    Schedule schedule_;
    Source& source_;
    span_type ring_;
    storage& shared_;
    // Steps, alike in all threads: released <= waited <= copied <= loaded <= committed <= acquired.
    u32 acquired_ = 0, committed_ = 0, loaded_ = 0, copied_ = 0, waited_ = 0, released_ = 0;
    u32 settled_ = 0; // in the first warp: steps whose load has its answer; the others know of `loaded_`
    u32 loads_ = 0;
    u32 parity_ = 0; // of each stage's copy
    u32 begun_ = 0;  // stages with a copy that was not waited for
};

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell

#include "impl/stream.cuh"
