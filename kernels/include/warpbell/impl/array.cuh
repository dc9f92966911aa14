// Bodies of array.cuh.
#pragma once

#include "../array.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

template <class Group, class Cache, class Stores, class Move, class... Held>
WARPBELL_D status detail::each_part(const Group& group, Cache& cache, u64 first, u64 count, u32 size,
                                    optional<u64> index, Stores stores, Move move, u64 timeout_ns,
                                    Held&... held) {
    static_assert(Cache::reads, "pages of a write_once cache are written as a whole, through guards: "
                                "what was in one before is not read");
    status result;
    if (index && *index >= count && !mutate::array_index_unchecked) {
        result = cache.outside();
    } else if (stores && !Cache::may_store) {
        result = code::read_only;
    }
    const u32 shift = port::highest(cache.page_bytes());
    u64 at = first + (index ? *index : 0) * size;
    u32 done = index && result.ok() ? 0 : size;
    do {
        u32 offset = static_cast<u32>(at) & (cache.page_bytes() - 1u);
        const u32 left = size - done, here = cache.page_bytes() - offset;
        u32 bytes = left < here ? left : here;
        const optional<u64> page = left != 0 ? optional<u64>(at >> shift) : optional<u64>();
        const auto use = [&](u8* data) { move(data + offset, done, bytes); };
        nothing_else meanwhile;
        const status said = cache.use_each_holding(group, page, stores, use, timeout_ns, meanwhile, at, done,
                                                   offset, bytes, result, held...);
        result = result.ok() ? said : result;
        done = said.ok() && !mutate::array_straddle_lost ? done + bytes : size;
        at += bytes;
    } while (group.ballot(done < size) != 0);
    return result;
}

template <class T, class Group, class Cache>
WARPBELL_NOINLINE detail::loaded<T> detail::load_pinned(const Group& group, Cache& cache, u64 first,
                                                        u64 count, optional<u64> index, u64 timeout_ns) {
    // A variable of its own, whose address is taken nowhere: it stays in a register.
    alignas(typename word_of<sizeof(T)>::type) T found = T();
    const auto move = [&](const u8* data, u32 done, u32 bytes) { load_part(found, data, done, bytes); };
    const status said =
        each_part(group, cache, first, count, sizeof(T), index, known<false>(), move, timeout_ns, found);
    return {found, said};
}

template <class T, class Cache>
template <class Group>
WARPBELL_D status array_view<T, Cache>::try_load(const Group& group, optional<u64> index, T& value,
                                                 u64 timeout_ns) {
    return load_holding(group_of(group), index, value, timeout_ns);
}

template <class T, class Cache>
template <class Group, class... Held>
WARPBELL_D status array_view<T, Cache>::load_holding(const Group& group, optional<u64> index, T& value,
                                                     u64 timeout_ns, Held&... held) {
    if constexpr (detail::word_of<sizeof(T)>::exists) {
        T kept = T();
        bool had = false;
        if constexpr (Cache::reads_words) {
            typename detail::word_of<sizeof(T)>::type word = 0;
            const u64 at = first_byte_ + (index ? *index : 0) * sizeof(T);
            const bool whole = !detail::may_cross(first_byte_, sizeof(T));
            had = cache_.read_word(group, index && *index < inside_ && whole, at, word);
            kept = detail::from_word<T>(word);
            index = had ? nullopt : index;
            if (group.ballot(static_cast<bool>(index)) == 0) {
                if (had) {
                    value = kept;
                }
                return status();
            }
        }
        bool open = static_cast<bool>(index);
        const auto get = [&] {
            return detail::load_pinned<T>(group, cache_, first_byte_, inside_, index, timeout_ns);
        };
        const detail::loaded<T> found = port::aside(get, open, had, kept, held...);
        if (had || (open && found.said.ok())) {
            value = had ? kept : found.value;
        }
        return found.said;
    } else {
        const auto move = [&](const u8* data, u32 done, u32 bytes) {
            detail::load_bytes(reinterpret_cast<u8*>(&value) + done, data, bytes);
        };
        return each_part(group, index, detail::known<false>(), move, timeout_ns);
    }
}

template <class T, class Cache>
template <class Group>
WARPBELL_D status array_view<T, Cache>::store(const Group& who, optional<u64> index, T value,
                                              u64 timeout_ns) {
    const auto group = group_of(who);
    const auto move = [&](u8* data, u32 done, u32 bytes) {
        if constexpr (detail::word_of<sizeof(T)>::exists) {
            detail::store_part(data, value, done, bytes);
        } else {
            detail::store_bytes(data, reinterpret_cast<const u8*>(&value) + done, bytes);
        }
    };
    return each_part(group, index, detail::known<true>(), move, timeout_ns);
}

template <class T, class Cache>
template <class Group>
WARPBELL_D status array_view<T, Cache>::atomic_add(const Group& who, optional<u64> index, T value,
                                                   u64 timeout_ns) {
    const auto group = group_of(who);
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "there are atomic additions of 32 and of 64 bits");
    if ((first_byte_ & (sizeof(T) - 1u)) != 0) {
        return code::misaligned;
    }
    const auto move = [&](u8* data, u32, u32) { port::add_relaxed_gpu(reinterpret_cast<T*>(data), value); };
    return each_part(group, index, detail::known<true>(), move, timeout_ns);
}

template <class T, class Cache> WARPBELL_D T array_view<T, Cache>::operator[](u64 index) {
    T value = T();
    const status said = load_holding(this_warp(), optional<u64>(index), value, 0, index);
    if (!said.ok()) {
        cache_.note(said, (first_byte_ + index * sizeof(T)) / cache_.page_bytes());
        value = T();
    }
    return value;
}

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
