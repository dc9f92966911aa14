// Arrays of the flat layer.
#pragma once

#include "../array.cuh"
#include "flat.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {
namespace flat {

// The beginning of warpbell_array; a page_cache<session<Mode>> follows. As session_head.
struct __attribute__((may_alias, aligned(8))) array_head {
    static constexpr u32 mark = 0xa88a1a88u;
    u32 marked;
    u32 element_bytes;
    warpbell_session* session;
    u64 first_byte;
    u64 count; // of an open one: those that end within the cache's pages

    template <sharing Mode> using cache_of = page_cache<warpbell::session<Mode>>;

    WARPBELL_D static array_head& of(warpbell_array* array) { return *reinterpret_cast<array_head*>(array); }
    template <sharing Mode> WARPBELL_D cache_of<Mode>& as(warpbell::session<Mode>&) {
        return *reinterpret_cast<cache_of<Mode>*>(this + 1);
    }
};

template <sharing Mode>
inline constexpr bool fits_array =
    sizeof(array_head) + sizeof(array_head::cache_of<Mode>) <= sizeof(warpbell_array) &&
    alignof(array_head::cache_of<Mode>) <= 8u;
static_assert(fits_array<sharing::shared> && fits_array<sharing::exclusive>);

constexpr u32 most_bytes = 16; // of an element

// An index, or none.
WARPBELL_D optional<u64> index_of(u64 index) {
    return index != WARPBELL_NO_INDEX ? optional<u64>(index) : optional<u64>();
}

// The array's session, if it is open.
WARPBELL_D warpbell_session* session_of(warpbell_array* array) {
    const array_head& head = array_head::of(array);
    return head.marked == array_head::mark ? head.session : nullptr;
}

// The cache, for those who attached the session.
template <class Group, sharing Mode>
WARPBELL_D status open_array(const Group& group, session<Mode>& s, array_head& head,
                             const warpbell_cache_ref* cache, const dma_span& pages) {
    using cache_type = array_head::cache_of<Mode>;
    const u32 bytes = head.element_bytes;
    const bool good = cache != nullptr && bytes - 1u < most_bytes && (bytes & (bytes - 1u)) == 0;
    if (group.ballot(!good) != 0) {
        return code::invalid_field;
    }
    new (port::place{&head + 1}) cache_type(group, *cache, s, pages);
    head.count = detail::elements_inside(head.as(s), head.first_byte, head.count, bytes);
    head.marked = array_head::mark;
    return status();
}

// Each part of the lane's element: move(data, done, bytes).
template <class Group, sharing Mode, class Stores, class Move>
WARPBELL_D status each_part(const Group& group, session<Mode>& s, array_head& head, optional<u64> index,
                            Stores stores, Move move, u64 timeout_ns) {
    return detail::each_part(group, head.as(s), head.first_byte, head.count, head.element_bytes, index,
                             stores, move, timeout_ns);
}

// The lane's element where a word moves it and its page is there.
template <class Word, class Group, sharing Mode>
WARPBELL_D bool load_word(const Group& group, session<Mode>& s, array_head& head, optional<u64> index,
                          u8* element) {
    Word word = 0;
    const u64 at = head.first_byte + (index ? *index : 0) * sizeof(Word);
    const bool whole = !detail::may_cross(head.first_byte, sizeof(Word));
    const bool had = head.as(s).read_word(group, index && *index < head.count && whole, at, word);
    port::copy_word(reinterpret_cast<Word*>(element), &word);
    return had;
}

template <class Group, sharing Mode>
WARPBELL_FLAT_PART status load(const Group& group, session<Mode>& s, array_head& head, optional<u64> index,
                               void* value, u64 timeout_ns) {
    alignas(8) u8 element[most_bytes] = {};
    const auto move = [&](const u8* data, u32 done, u32 bytes) {
        detail::load_bytes(element + done, data, bytes);
    };
    bool had = false;
    if (head.element_bytes == 8u) {
        had = load_word<u64>(group, s, head, index, element);
    } else if (head.element_bytes == 4u) {
        had = load_word<u32>(group, s, head, index, element);
    }
    const optional<u64> rest = had ? optional<u64>() : index;
    status said;
    if (group.ballot(static_cast<bool>(rest)) != 0) {
        said = each_part(group, s, head, rest, detail::known<false>(), move, timeout_ns);
    }
    if (index && said.ok()) {
        detail::copy_bytes(static_cast<u8*>(value), element, head.element_bytes);
    }
    return said;
}

template <class Group, sharing Mode>
WARPBELL_FLAT_PART status store(const Group& group, session<Mode>& s, array_head& head, optional<u64> index,
                                const void* value, u64 timeout_ns) {
    alignas(8) u8 element[most_bytes] = {};
    if (index) {
        detail::copy_bytes(element, static_cast<const u8*>(value), head.element_bytes);
    }
    const auto move = [&](u8* data, u32 done, u32 bytes) {
        detail::store_bytes(data, element + done, bytes);
    };
    return each_part(group, s, head, index, detail::known<true>(), move, timeout_ns);
}

// Why nothing can be added to elements of the array, or success.
WARPBELL_D status adds(const array_head& head) {
    const u32 bytes = head.element_bytes;
    const bool misaligned = (head.first_byte & (bytes - 1u)) != 0;
    return bytes != 4u && bytes != 8u ? status(code::invalid_field)
           : misaligned               ? status(code::misaligned)
                                      : status();
}

template <class Group, sharing Mode>
WARPBELL_FLAT_PART status add(const Group& group, session<Mode>& s, array_head& head, optional<u64> index,
                              u64 value, u64 timeout_ns) {
    const status refusal = adds(head);
    const bool wide = head.element_bytes == 8u;
    const auto move = [=](u8* data, u32, u32) {
        if (wide) {
            port::add_relaxed_gpu(reinterpret_cast<u64*>(data), value);
        } else {
            port::add_relaxed_gpu(reinterpret_cast<u32*>(data), static_cast<u32>(value));
        }
    };
    const optional<u64> mine = refusal.ok() ? index : optional<u64>();
    const status said = each_part(group, s, head, mine, detail::known<true>(), move, timeout_ns);
    return refusal.ok() ? said : refusal;
}

template <class Group, sharing Mode>
WARPBELL_FLAT_PART status flush(const Group& group, session<Mode>& s, array_head& head, u64 timeout_ns) {
    return head.as(s).flush(group, timeout_ns);
}

// ---- what the calls do, of a group and its session

struct open_it {
    array_head* head;
    const warpbell_cache_ref* cache;
    dma_span pages;
    template <class Group, sharing Mode>
    WARPBELL_D status operator()(const Group& group, session<Mode>& s) const {
        return open_array(group, s, *head, cache, pages);
    }
};
struct close_it {
    array_head* head;
    template <class Group, sharing Mode>
    WARPBELL_D status operator()(const Group& group, session<Mode>& s) const {
        auto& cache = head->as(s);
        cache.detach(group);
        destroy(cache);
        head->marked = 0;
        return status();
    }

  private:
    template <class T> WARPBELL_D static void destroy(T& object) { object.~T(); }
};
struct get_it {
    array_head* head;
    optional<u64> index;
    void* value;
    u64 timeout_ns;
    template <class Group, sharing Mode>
    WARPBELL_D status operator()(const Group& group, session<Mode>& s) const {
        return load(group, s, *head, index, value, timeout_ns);
    }
};
struct put_it {
    array_head* head;
    optional<u64> index;
    const void* value;
    u64 timeout_ns;
    template <class Group, sharing Mode>
    WARPBELL_D status operator()(const Group& group, session<Mode>& s) const {
        return store(group, s, *head, index, value, timeout_ns);
    }
};
struct add_it {
    array_head* head;
    optional<u64> index;
    u64 value;
    u64 timeout_ns;
    template <class Group, sharing Mode>
    WARPBELL_D status operator()(const Group& group, session<Mode>& s) const {
        return add(group, s, *head, index, value, timeout_ns);
    }
};
struct flush_array {
    array_head* head;
    u64 timeout_ns;
    template <class Group, sharing Mode>
    WARPBELL_D status operator()(const Group& group, session<Mode>& s) const {
        return flush(group, s, *head, timeout_ns);
    }
};

} // namespace flat
} // namespace WARPBELL_NAMESPACE
} // namespace warpbell

extern "C" {

WARPBELL_FLAT uint32_t warpbell_array_open(warpbell_array* array, warpbell_session* session,
                                           const warpbell_cache_ref* cache, const warpbell_buffer_ref* pages,
                                           uint64_t first_byte, uint64_t count, uint32_t element_bytes) {
    using namespace warpbell;
    flat::array_head& head = flat::array_head::of(array);
    head.marked = 0;
    head.element_bytes = element_bytes;
    head.session = session;
    head.first_byte = first_byte;
    head.count = count;
    const dma_span memory = flat::span_of(pages, 0, pages != nullptr ? pages->bytes : 0);
    return flat::by_owner(session, flat::open_it{&head, cache, memory});
}
WARPBELL_FLAT uint32_t warpbell_array_close(warpbell_array* array) {
    using namespace warpbell::flat;
    return by_owner(session_of(array), close_it{&array_head::of(array)});
}

WARPBELL_FLAT uint32_t warpbell_array_get(warpbell_array* array, uint64_t index, void* value,
                                          uint64_t timeout_ns) {
    using namespace warpbell::flat;
    return by_thread(session_of(array), get_it{&array_head::of(array), index, value, timeout_ns});
}
WARPBELL_FLAT uint32_t warpbell_array_get_each(warpbell_array* array, uint64_t index, void* value,
                                               uint64_t timeout_ns) {
    using namespace warpbell::flat;
    return by_warp(session_of(array), get_it{&array_head::of(array), index_of(index), value, timeout_ns});
}
WARPBELL_FLAT uint32_t warpbell_array_put(warpbell_array* array, uint64_t index, const void* value,
                                          uint64_t timeout_ns) {
    using namespace warpbell::flat;
    return by_thread(session_of(array), put_it{&array_head::of(array), index, value, timeout_ns});
}
WARPBELL_FLAT uint32_t warpbell_array_put_each(warpbell_array* array, uint64_t index, const void* value,
                                               uint64_t timeout_ns) {
    using namespace warpbell::flat;
    return by_warp(session_of(array), put_it{&array_head::of(array), index_of(index), value, timeout_ns});
}

WARPBELL_FLAT uint32_t warpbell_array_atomic_add(warpbell_array* array, uint64_t index, uint64_t value,
                                                 uint64_t timeout_ns) {
    using namespace warpbell::flat;
    return by_thread(session_of(array), add_it{&array_head::of(array), index, value, timeout_ns});
}
WARPBELL_FLAT uint32_t warpbell_array_atomic_add_each(warpbell_array* array, uint64_t index, uint64_t value,
                                                      uint64_t timeout_ns) {
    using namespace warpbell::flat;
    return by_warp(session_of(array), add_it{&array_head::of(array), index_of(index), value, timeout_ns});
}

WARPBELL_FLAT uint32_t warpbell_array_flush(warpbell_array* array, uint64_t timeout_ns) {
    using namespace warpbell::flat;
    return by_thread(session_of(array), flush_array{&array_head::of(array), timeout_ns});
}
WARPBELL_FLAT uint32_t warpbell_array_flush_warp(warpbell_array* array, uint64_t timeout_ns) {
    using namespace warpbell::flat;
    return by_warp(session_of(array), flush_array{&array_head::of(array), timeout_ns});
}

} // extern "C"
