// Groups of threads that call together. A group is anything with size(), thread_rank() and sync(); a
// warp group, which all calls of a session take, also has mask(): the lanes of this warp that belong to it.
// Every lane of the mask must make the call, in the same order as its other calls for that mask.
#pragma once

#include "types.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

// This thread alone.
struct this_thread_t {
    WARPBELL_D static constexpr u32 size() { return 1; }
    WARPBELL_D static constexpr u32 thread_rank() { return 0; }
    WARPBELL_D static void sync() {}
    WARPBELL_D static u32 mask() { return 1u << port::lane(); }
    WARPBELL_D static u32 leader() { return port::lane(); }
    WARPBELL_D static constexpr bool is_leader() { return true; }
    WARPBELL_D static u32 ballot(bool predicate) { return predicate ? mask() : 0; }
    WARPBELL_D static u32 match(u32) { return mask(); }
    WARPBELL_D static u32 match(u64) { return mask(); }
    WARPBELL_D static u64 broadcast(u64 value) { return value; }
    WARPBELL_D static u32 broadcast(u32 value) { return value; }
    WARPBELL_D static u64 from(u32, u64 value) { return value; }
    WARPBELL_D static u32 from(u32, u32 value) { return value; }
};

// All 32 lanes of the warp.
struct this_warp_t {
    WARPBELL_D static constexpr u32 size() { return WARPBELL_WARP_LANES; }
    WARPBELL_D static u32 thread_rank() { return port::lane(); }
    WARPBELL_D static void sync() { port::sync(mask()); }
    WARPBELL_D static constexpr u32 mask() { return 0xffffffffu; }
    WARPBELL_D static constexpr u32 leader() { return 0; }
    WARPBELL_D static bool is_leader() { return port::lane() == 0; }
    WARPBELL_D static u32 ballot(bool predicate) { return port::ballot(mask(), predicate); }
    // The lanes whose value is this one's.
    WARPBELL_D static u32 match(u32 value) { return port::match(mask(), value); }
    WARPBELL_D static u32 match(u64 value) { return port::match(mask(), value); }
    // The leader's value, in every lane. Orders nothing.
    WARPBELL_D static u64 broadcast(u64 value) { return port::shuffle(mask(), value, leader()); }
    WARPBELL_D static u32 broadcast(u32 value) { return port::shuffle(mask(), value, leader()); }
    // The value of lane `lane`, a member, in every lane.
    WARPBELL_D static u64 from(u32 lane, u64 value) { return port::shuffle(mask(), value, lane); }
    WARPBELL_D static u32 from(u32 lane, u32 value) { return port::shuffle(mask(), value, lane); }
};

// Some lanes of the warp, named by a mask that has the calling lane in it.
class lanes {
  public:
    WARPBELL_D explicit lanes(u32 mask) : mask_(mask) {}
    WARPBELL_D u32 size() const { return port::population(mask_); }
    WARPBELL_D u32 thread_rank() const { return port::population(mask_ & port::lanes_below()); }
    WARPBELL_D void sync() const { port::sync(mask_); }
    WARPBELL_D u32 mask() const { return mask_; }
    WARPBELL_D u32 leader() const { return port::lowest(mask_); }
    WARPBELL_D bool is_leader() const { return port::lane() == leader(); }
    WARPBELL_D u32 ballot(bool predicate) const { return port::ballot(mask_, predicate); }
    WARPBELL_D u32 match(u32 value) const { return port::match(mask_, value); }
    WARPBELL_D u32 match(u64 value) const { return port::match(mask_, value); }
    WARPBELL_D u64 broadcast(u64 value) const { return port::shuffle(mask_, value, leader()); }
    WARPBELL_D u32 broadcast(u32 value) const { return port::shuffle(mask_, value, leader()); }
    WARPBELL_D u64 from(u32 lane, u64 value) const { return port::shuffle(mask_, value, lane); }
    WARPBELL_D u32 from(u32 lane, u32 value) const { return port::shuffle(mask_, value, lane); }

  private:
    u32 mask_;
};

// All threads of the block, of one dimension; a thread_block (below) may have several. No warp group: what
// queues do is done by each of its warps.
struct this_block_t {
    WARPBELL_D static u32 size() { return port::block_threads(); }
    WARPBELL_D static u32 thread_rank() { return port::thread_index(); }
    WARPBELL_D static void sync() { port::sync_block(); }
};

WARPBELL_D constexpr this_thread_t this_thread() { return {}; }
WARPBELL_D constexpr this_warp_t this_warp() { return {}; }
WARPBELL_D constexpr this_block_t this_block() { return {}; }
// The lanes of a whole warp for which `member` holds; the lanes for which it does not hold must not
// use the result. All 32 lanes call.
WARPBELL_D lanes lanes_where(bool member) { return lanes(port::ballot(0xffffffffu, member)); }

// ---- cooperative groups (CUDA C++ Programming Guide, Cooperative Groups)
//
// thread_block_tile<1> to <32> and coalesced_group make every call that a warp group makes, but those of
// queue.cuh itself. thread_block, of any dimensions, makes every call that this_block() makes.

namespace detail {

template <class T> WARPBELL_D const T& made(); // never called, and never defined

// Ours say which lanes they have.
template <class Group> WARPBELL_D constexpr auto names_lanes(int) -> decltype(made<Group>().mask(), true) {
    return true;
}
template <class Group> WARPBELL_D constexpr bool names_lanes(long) { return false; }

// Lanes of a tile, whose size is known: it begins at a multiple of it. 0: another group.
template <class Group, u32 Size = Group::num_threads()> WARPBELL_D constexpr u32 tile_size(int) {
    return Size;
}
template <class Group> WARPBELL_D constexpr u32 tile_size(long) { return 0; }

// A coalesced_group has a mask for those that derive from it.
template <class Group> struct mask_of : Group {
    template <class T> WARPBELL_D static constexpr auto has(int) -> decltype(&T::get_mask, true) {
        return true;
    }
    template <class T> WARPBELL_D static constexpr bool has(long) { return false; }
    WARPBELL_D static u32 get(const Group& group) { return (group.*&mask_of::get_mask)(); }
};

// Whether a group is lanes of one warp.
template <class Group> WARPBELL_D constexpr bool has_lanes() {
    constexpr u32 tile = tile_size<Group>(0);
    if constexpr (names_lanes<Group>(0) || (tile != 0 && tile <= WARPBELL_WARP_LANES)) {
        return true;
    } else {
        return mask_of<Group>::template has<mask_of<Group>>(0);
    }
}

} // namespace detail

// The group as this library knows it. A call makes it of its group; whoever makes many calls for a
// coalesced_group may do so once.
template <class Group> WARPBELL_D auto group_of(const Group& group) {
    static_assert(detail::has_lanes<Group>(),
                  "the group of this call is lanes of one warp: this_warp(), lanes, this_thread(), "
                  "thread_block_tile of 32 threads at most, or coalesced_group");
    constexpr u32 tile = detail::tile_size<Group>(0);
    if constexpr (detail::names_lanes<Group>(0)) {
        return group;
    } else if constexpr (tile == WARPBELL_WARP_LANES) {
        return this_warp();
    } else if constexpr (tile != 0 && tile < WARPBELL_WARP_LANES) {
        return lanes(((1u << tile) - 1u) << (port::lane() & ~(tile - 1u)));
    } else {
        return lanes(detail::mask_of<Group>::get(group));
    }
}

namespace detail {

// A thread_block: of all groups, it alone says which one of the grid it is.
template <class Group>
WARPBELL_D constexpr auto is_block(int) -> decltype(made<Group>().group_index(), true) {
    return true;
}
template <class Group> WARPBELL_D constexpr bool is_block(long) { return false; }

// The threads of one, numbered as CUDA numbers those of a block of several dimensions; so are its warps.
struct thread_block_t {
    WARPBELL_D static u32 size() { return port::block_size(); }
    WARPBELL_D static u32 thread_rank() { return port::block_rank(); }
    WARPBELL_D static void sync() { port::sync_block(); }
};

// The group of a call that blocks make, too.
WARPBELL_D this_block_t block_or_warp(const this_block_t& block) { return block; }
WARPBELL_D thread_block_t block_or_warp(const thread_block_t& block) { return block; }
template <class Group> WARPBELL_D auto block_or_warp(const Group& group) {
    if constexpr (is_block<Group>(0)) {
        return thread_block_t();
    } else if constexpr (has_lanes<Group>()) {
        return group_of(group);
    } else {
        static_assert(
            has_lanes<Group>(),
            "the group of this call is a block, this_block() or thread_block, or lanes of one warp: "
            "this_warp(), lanes, this_thread(), thread_block_tile of 32 threads at most, or "
            "coalesced_group");
    }
}

} // namespace detail

template <class Group> using group_type = decltype(group_of(detail::made<Group>()));

// How many lanes of `mask` come before this one.
WARPBELL_D u32 rank_in(u32 mask) { return port::population(mask & port::lanes_below()); }

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
