// store_buffer.h - the weak-memory mode: stores that wait, so that a missing fence shows on x86 too.
//
// The model. With `store_buffer` = N > 0 each store (plain, relaxed, release, 16-byte) and each doorbell of a
// lane becomes an entry instead of reaching memory. An entry carries the set of lanes *ordered after* it:
// lanes for which program order and barriers put the store before whatever they do next. At first that is the
// storing lane alone.
//
//   load            sees memory, overlaid byte by byte with the entries that its lane is ordered after,
//   oldest first.
//   __syncwarp(m)   every entry that some lane of m is ordered after, all lanes of m are ordered after from
//   then on.
//                   It drains nothing: the rest of the GPU and the host may see those stores in any order
//                   still.
//   __syncthreads   the same for all lanes of the block.
//   fence           of any scope, if it releases (release, acq_rel, seq_cst): marks every entry that its lane
//                   is ordered after, other lanes' entries included; nothing that the block stores later
//                   drains before them. This is the cumulativity that "all lanes write, __syncwarp, the
//                   leader fences and rings" rests on. A later load may still overtake them: only a seq_cst
//                   fence always drains them there and then, any other one time in two, as the seed decides.
//                   An acquire fence does nothing.
//   release store   marks as a fence does, then is itself an entry.
//   RMW             acts on memory at once. One that releases drains every entry that its lane is ordered
//                   after; any other drains those of them that are for its own bytes or marked by a fence,
//                   and overtakes all others.
//   drain           entries for overlapping bytes drain in the order of their stores, those that a fence
//   separates in its order, everything else in any order: at
//                   each hook, and at the start of each turn, the seed decides whether an entry drains and
//                   which. A lane with N entries drains one of its own before the next. A block's last lane
//                   drains all.
//   doorbell        is an entry like others. It reaches hooks.doorbell, or the register, when it drains:
//   without a
//                   fence before it the controller may see a doorbell before the queue entries it announces,
//                   or two doorbells of different registers in the wrong order.
//
// Not modelled: loads that return old values (a missing acquire shows as a race under TSan), fences that are
// too narrow in scope, accesses that do not go through memory.h (they act on memory directly and ignore the
// buffer), and the order in which MMIO stores arrive beyond the point where they leave the GPU.
#pragma once

#include "worker.h"

namespace [[gnu::visibility("hidden")]] simt {

struct PendingStore {
    uintptr_t address;
    uint32_t bytes;
    uint32_t ordered; // lanes of `warp` that are ordered after it
    Lane* lane;       // that stored
    bool block_wide;  // every lane of the block is ordered after it
    bool doorbell;
    uint32_t stored; // fences of the block before the store,
    uint32_t fenced; // and up to the first that marks it; 0: none does
    alignas(8) unsigned char value[16];
};

struct StoreBuffer {
    uint32_t count, capacity;
    uint32_t fences;
    PendingStore* entries; // oldest first
};

StoreBuffer* create_store_buffer(uint32_t capacity);
void destroy_store_buffer(StoreBuffer* buffer);

void weak_doorbell(Lane& lane, uint32_t* address, uint32_t value);
void publish_to_block(Block& block);
void publish_to_warp(Warp& warp, uint32_t group);
void drain_by_chance(Worker& worker, Block& block);
// Entry `index` itself, whatever is older; a doorbell is only taken out.
void drain_to_memory(Worker& worker, StoreBuffer& buffer, uint32_t index);
void drain_all(Worker& worker, Block& block);

} // namespace simt
