// store_buffer.cpp - see store_buffer.h for the model.
#include "store_buffer.h"

#include "executor.h"
#include "memory.h"
#include "schedule.h"

#include <cstdlib>
#include <cstring>

namespace [[gnu::visibility("hidden")]] simt {

namespace {

bool overlaps(const PendingStore& store, uintptr_t address, uint32_t bytes) {
    return store.address < address + bytes && address < store.address + store.bytes;
}

bool is_ordered_before(const PendingStore& store, const Lane& lane) {
    return store.block_wide || (store.lane->warp == lane.warp && (store.ordered >> lane.index & 1));
}

bool drains_before(const PendingStore& earlier, const PendingStore& later) {
    return (earlier.fenced && earlier.fenced <= later.stored) ||
           overlaps(earlier, later.address, later.bytes);
}

void write_memory(const PendingStore& store) {
    void* to = reinterpret_cast<void*>(store.address);
    uint64_t value = 0;
    std::memcpy(&value, store.value, store.bytes < 8 ? store.bytes : 8);
    switch (store.bytes) {
    case 1:
        __atomic_store_n(static_cast<uint8_t*>(to), static_cast<uint8_t>(value), __ATOMIC_RELAXED);
        break;
    case 2:
        __atomic_store_n(static_cast<uint16_t*>(to), static_cast<uint16_t>(value), __ATOMIC_RELAXED);
        break;
    case 4:
        __atomic_store_n(static_cast<uint32_t*>(to), static_cast<uint32_t>(value), __ATOMIC_RELAXED);
        break;
    case 8:
        __atomic_store_n(static_cast<uint64_t*>(to), value, __ATOMIC_RELAXED);
        break;
    default:
        std::memcpy(to, store.value, store.bytes);
    }
}

void read_memory(uintptr_t address, void* value, uint32_t bytes) {
    const void* from = reinterpret_cast<const void*>(address);
    uint64_t found = 0;
    switch (bytes) {
    case 1:
        found = __atomic_load_n(static_cast<const uint8_t*>(from), __ATOMIC_ACQUIRE);
        break;
    case 2:
        found = __atomic_load_n(static_cast<const uint16_t*>(from), __ATOMIC_ACQUIRE);
        break;
    case 4:
        found = __atomic_load_n(static_cast<const uint32_t*>(from), __ATOMIC_ACQUIRE);
        break;
    case 8:
        found = __atomic_load_n(static_cast<const uint64_t*>(from), __ATOMIC_ACQUIRE);
        break;
    default:
        std::memcpy(value, from, bytes);
        return;
    }
    std::memcpy(value, &found, bytes);
}

PendingStore take_out(Worker& worker, StoreBuffer& buffer, uint32_t index) {
    const PendingStore store = buffer.entries[index];
    --buffer.count;
    std::memmove(buffer.entries + index, buffer.entries + index + 1,
                 (buffer.count - index) * sizeof(PendingStore));
    --store.lane->buffered;
    ++worker.count.drained;
    return store;
}

// The oldest entry that has to drain before entry `index`, or that one.
uint32_t first_before(const StoreBuffer& buffer, uint32_t index) {
    for (uint32_t i = 0; i < index; ++i)
        if (drains_before(buffer.entries[i], buffer.entries[index]))
            return first_before(buffer, i);
    return index;
}

// Drains the entry, or an older one that has to go first. Taken out before it is written: writing a
// doorbell runs foreign code.
void drain_near(Worker& worker, StoreBuffer& buffer, uint32_t index) {
    const PendingStore store = take_out(worker, buffer, first_before(buffer, index));
    tell(worker, WB_SIMT_EVENT_DRAIN, store.address, store.bytes, *store.lane);
    if (!store.doorbell)
        return write_memory(store);
    uint32_t value;
    std::memcpy(&value, store.value, sizeof value);
    // Everything drained so far must be seen by who sees this doorbell, on any host processor.
    host_fence(__ATOMIC_RELEASE);
    ring(worker, reinterpret_cast<uint32_t*>(store.address), value);
}

// Drains all entries that match, in an order that the seed decides.
template <class Match> void drain_matching(Worker& worker, StoreBuffer& buffer, Match match) {
    for (;;) {
        uint32_t matching = 0;
        for (uint32_t i = 0; i < buffer.count; ++i)
            matching += match(buffer.entries[i]);
        if (matching == 0)
            break;
        auto skip = (next_random(worker) >> 20) % matching;
        uint32_t index = 0;
        while (!match(buffer.entries[index]) || skip--)
            ++index;
        drain_near(worker, buffer, index);
    }
    host_fence(__ATOMIC_RELEASE);
}

void make_room(Lane& lane, StoreBuffer& buffer) {
    Worker& worker = *lane.worker;
    // Nothing but the caller's choice may drain there.
    if (worker.explore && lane.buffered >= worker.launch.store_buffer)
        fail(lane, Fault::trap, Op::syncwarp, 0, 0, "the store buffer is full");
    while (lane.buffered >= worker.launch.store_buffer) {
        auto skip = (next_random(worker) >> 20) % lane.buffered;
        uint32_t index = 0;
        while (buffer.entries[index].lane != &lane || skip--)
            ++index;
        drain_near(worker, buffer, index);
    }
}

void append(Lane& lane, uintptr_t address, const void* value, uint32_t bytes, bool doorbell) {
    StoreBuffer& buffer = *lane.warp->block->stores;
    make_room(lane, buffer);
    PendingStore& store = buffer.entries[buffer.count++];
    store = {address, bytes, 1u << lane.index, &lane, false, doorbell, buffer.fences, 0, {}};
    std::memcpy(store.value, value, bytes);
    ++lane.buffered;
}

} // namespace

StoreBuffer* create_store_buffer(uint32_t capacity) {
    auto* buffer = static_cast<StoreBuffer*>(std::calloc(1, sizeof(StoreBuffer)));
    if (!buffer)
        return nullptr;
    buffer->capacity = capacity;
    buffer->entries = static_cast<PendingStore*>(std::calloc(capacity, sizeof(PendingStore)));
    if (buffer->entries)
        return buffer;
    std::free(buffer);
    return nullptr;
}

void destroy_store_buffer(StoreBuffer* buffer) {
    if (buffer)
        std::free(buffer->entries);
    std::free(buffer);
}

void weak_store(const volatile void* address, const void* value, uint32_t bytes, bool release) {
    if (release)
        weak_fence(*running.lane, false);
    append(*running.lane, reinterpret_cast<uintptr_t>(address), value, bytes, false);
}

void weak_doorbell(Lane& lane, uint32_t* address, uint32_t value) {
    append(lane, reinterpret_cast<uintptr_t>(address), &value, sizeof value, true);
}

void weak_load(const volatile void* address, void* value, uint32_t bytes) {
    const Lane& lane = *running.lane;
    const StoreBuffer& buffer = *lane.warp->block->stores;
    const auto from = reinterpret_cast<uintptr_t>(address);
    auto* out = static_cast<unsigned char*>(value);
    read_memory(from, value, bytes);
    for (uint32_t i = 0; i < buffer.count; ++i) {
        const PendingStore& store = buffer.entries[i];
        if (!overlaps(store, from, bytes) || !is_ordered_before(store, lane))
            continue;
        for (uint32_t b = 0; b < store.bytes; ++b)
            if (store.address + b - from < bytes)
                out[store.address + b - from] = store.value[b];
    }
}

void weak_before_rmw(const volatile void* address, uint32_t bytes, bool release) {
    Lane& lane = *running.lane;
    const auto at = reinterpret_cast<uintptr_t>(address);
    if (release)
        weak_fence(lane, true);
    if (lane.worker->explore)
        return stop_before(lane, WB_SIMT_STOP_RMW, at, bytes);
    if (release)
        return;
    drain_matching(*lane.worker, *lane.warp->block->stores, [&](const PendingStore& store) {
        return (overlaps(store, at, bytes) || store.fenced) && is_ordered_before(store, lane);
    });
}

void weak_fence(Lane& lane, bool before_loads) {
    StoreBuffer& buffer = *lane.warp->block->stores;
    if (lane.worker->explore && before_loads && lane.buffered)
        stop_before(lane, WB_SIMT_STOP_FENCE, 0, 0);
    // Both must be met with: a fence whose stores linger, and one after which they are there at once.
    if (before_loads || (!lane.worker->explore && one_in(*lane.worker, 2)))
        return drain_matching(*lane.worker, buffer,
                              [&](const PendingStore& store) { return is_ordered_before(store, lane); });
    if (buffer.count == 0)
        return;
    ++buffer.fences;
    for (uint32_t i = 0; i < buffer.count; ++i) {
        PendingStore& store = buffer.entries[i];
        if (!store.fenced && is_ordered_before(store, lane))
            store.fenced = buffer.fences;
    }
}

void publish_to_warp(Warp& warp, uint32_t group) {
    StoreBuffer& buffer = *warp.block->stores;
    for (uint32_t i = 0; i < buffer.count; ++i) {
        PendingStore& store = buffer.entries[i];
        if (store.lane->warp == &warp && (store.ordered & group))
            store.ordered |= group;
    }
}

// Every living lane of the block takes part. Entries that none of them is ordered after are those of
// exited lanes.
void publish_to_block(Block& block) {
    StoreBuffer& buffer = *block.stores;
    for (uint32_t i = 0; i < buffer.count; ++i) {
        PendingStore& store = buffer.entries[i];
        store.block_wide |= (store.ordered & store.lane->warp->live) != 0;
    }
}

void drain_by_chance(Worker& worker, Block& block) {
    StoreBuffer& buffer = *block.stores;
    if (buffer.count && one_in(worker, worker.drain_one_in))
        drain_near(worker, buffer, static_cast<uint32_t>((next_random(worker) >> 20) % buffer.count));
}

void drain_to_memory(Worker& worker, StoreBuffer& buffer, uint32_t index) {
    const PendingStore store = take_out(worker, buffer, index);
    if (!store.doorbell)
        write_memory(store);
}

void drain_all(Worker& worker, Block& block) {
    drain_matching(worker, *block.stores, [](const PendingStore&) { return true; });
}

} // namespace simt
