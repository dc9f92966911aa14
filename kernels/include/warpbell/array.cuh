// An array on a namespace or a volume that reads like memory, over a page cache (cache.cuh). It may begin at
// any byte, and its elements may lie across two pages.
//
//   wb::array_view<float, decltype(pages)> x(pages, first_byte, count);
//   sum += x[column];                                // all lanes of the warp, each its own element
//   wb::status s = x.try_load(warp, index, value);   // the same with an answer, and lanes without an index
//   s = x.store(warp, index, value);
//
// | call                         | arguments         | answer                                      |
// | ---------------------------- | ----------------- | ------------------------------------------- |
// | operator[] (index), of warps | each lane its own | the element; or T(), and a note in the report |
// | try_load, store, atomic_add  | each lane its own | each lane its own; success without an index |
// | acquire (group, index)       | the same in each  | a guard of the elements of one page         |
//
// Elements of 4 and of 8 bytes at multiples of their size are words, moved in one piece by relaxed accesses.
// A word is loaded without a pin where its page is there: by each lane alone, without an atomic. Of other
// elements another warp may see a part while one is stored. For them, and for stores, one warp's lanes that
// want elements of one page share its lookup. Within a guard there is none.
#pragma once

#include "cache.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

namespace detail {

// Apart from the code of an element that words can move.
WARPBELL_NOINLINE void copy_odd(u8* out, const u8* in, u32 bytes) {
    WARPBELL_NO_UNROLL
    for (u32 at = 0; at < bytes; ++at) {
        out[at] = in[at];
    }
}

// By bytes where the address is not one for words: of an element of any size, at any place.
template <class To, class From> WARPBELL_D void copy_bytes(To* to, const From* from, u32 bytes) {
    u8* const out = reinterpret_cast<u8*>(to);
    const u8* const in = reinterpret_cast<const u8*>(from);
    const u32 places = static_cast<u32>(reinterpret_cast<u64>(to) | reinterpret_cast<u64>(from));
    // A word in one piece: what another warp stores meanwhile is seen as a whole, or not at all.
    if (((places | bytes) & 7u) == 0) {
        WARPBELL_NO_UNROLL
        for (u32 at = 0; at < bytes; at += 8u) {
            port::copy_word(reinterpret_cast<u64*>(out + at), reinterpret_cast<const u64*>(in + at));
        }
        return;
    }
    if (((places | bytes) & 3u) == 0) {
        WARPBELL_NO_UNROLL
        for (u32 at = 0; at < bytes; at += 4u) {
            port::copy_word(reinterpret_cast<u32*>(out + at), reinterpret_cast<const u32*>(in + at));
        }
        return;
    }
    copy_odd(out, in, bytes);
}

// One relaxed access; the element is an object of another type.
template <class Word> WARPBELL_D void load_whole(u8* to, const u8* data) {
    const Word word = port::load_relaxed_gpu(reinterpret_cast<const Word*>(data));
    port::copy_word(reinterpret_cast<Word*>(to), &word);
}
template <class Word> WARPBELL_D void store_whole(u8* data, const u8* from) {
    Word word;
    port::copy_word(&word, reinterpret_cast<const Word*>(from));
    port::store_relaxed_gpu(reinterpret_cast<Word*>(data), word);
}
// Of an element whose size is not known: a word in one relaxed access, as `read_word` loads it; or bytes.
WARPBELL_D void load_bytes(u8* to, const u8* data, u32 bytes) {
    const u32 places = static_cast<u32>(reinterpret_cast<u64>(to) | reinterpret_cast<u64>(data));
    if (bytes == 8u && (places & 7u) == 0) {
        load_whole<u64>(to, data);
    } else if (bytes == 4u && (places & 3u) == 0) {
        load_whole<u32>(to, data);
    } else {
        copy_bytes(to, data, bytes);
    }
}
WARPBELL_D void store_bytes(u8* data, const u8* from, u32 bytes) {
    const u32 places = static_cast<u32>(reinterpret_cast<u64>(data) | reinterpret_cast<u64>(from));
    if (bytes == 8u && (places & 7u) == 0) {
        store_whole<u64>(data, from);
    } else if (bytes == 4u && (places & 3u) == 0) {
        store_whole<u32>(data, from);
    } else {
        copy_bytes(data, from, bytes);
    }
}

// The word that moves a whole element in one access, where it lies at a multiple of its size.
template <u32 Bytes> struct word_of {
    static constexpr bool exists = false;
};
template <> struct word_of<4> {
    using type = u32;
    static constexpr bool exists = true;
};
template <> struct word_of<8> {
    using type = u64;
    static constexpr bool exists = true;
};
template <class T> WARPBELL_D bool is_one_word(const u8* data, u32 bytes) {
    return bytes == sizeof(T) && (static_cast<u32>(reinterpret_cast<u64>(data)) & (sizeof(T) - 1u)) == 0;
}
template <class T> WARPBELL_D typename word_of<sizeof(T)>::type word_from(const T& value) {
    using word = typename word_of<sizeof(T)>::type;
    alignas(word) const T copy = value;
    word bits;
    port::copy_word(&bits, reinterpret_cast<const word*>(&copy));
    return bits;
}
template <class T> WARPBELL_D T from_word(typename word_of<sizeof(T)>::type bits) {
    alignas(decltype(bits)) T value;
    port::copy_word(reinterpret_cast<decltype(bits)*>(&value), &bits);
    return value;
}
// Bytes `done` to `done + bytes` of an element that a word moves, as a rule. What needs its address is apart.
template <class T> WARPBELL_NOINLINE T loaded_part(T value, const u8* data, u32 done, u32 bytes) {
    load_bytes(reinterpret_cast<u8*>(&value) + done, data, bytes);
    return value;
}
template <class T> WARPBELL_NOINLINE void stored_part(u8* data, T value, u32 done, u32 bytes) {
    store_bytes(data, reinterpret_cast<const u8*>(&value) + done, bytes);
}
// Relaxed, as `read_word` loads it. `value` is aligned as a word.
template <class T> WARPBELL_D void load_part(T& value, const u8* data, u32 done, u32 bytes) {
    using word = typename word_of<sizeof(T)>::type;
    if (is_one_word<T>(data, bytes)) {
        value = from_word<T>(port::load_relaxed_gpu(reinterpret_cast<const word*>(data)));
    } else {
        value = loaded_part(value, data, done, bytes);
    }
}
template <class T> WARPBELL_D void store_part(u8* data, const T& value, u32 done, u32 bytes) {
    using word = typename word_of<sizeof(T)>::type;
    if (is_one_word<T>(data, bytes)) {
        port::store_relaxed_gpu(reinterpret_cast<word*>(data), word_from(value));
    } else {
        stored_part(data, value, done, bytes);
    }
}

// Elements of `size` bytes from byte `first` of a cache's pages on: of `count` those that end where the pages
// do, or before. No store may find that out with its first part done.
template <class Cache> WARPBELL_D u64 elements_inside(const Cache& cache, u64 first, u64 count, u32 size) {
    const u64 bytes = cache.usable_pages() << port::highest(cache.page_bytes());
    const u64 fit = first < bytes ? (bytes - first) / size : 0;
    return count < fit || mutate::array_end_unchecked ? count : fit;
}

// Whether an element may lie across two pages. None of a power of two of bytes does, where the array begins
// at a multiple of it, as far as they fit into the smallest page, which is a block.
WARPBELL_D bool may_cross(u64 first, u32 size) {
    return size > 512u || ((static_cast<u32>(first) | size) & (size - 1u)) != 0;
}

// Calls move(data, done, bytes) for each part of the lane's element, one of `count`. `held`: as of
// use_each_holding.
template <class Group, class Cache, class Stores, class Move, class... Held>
WARPBELL_D status each_part(const Group& group, Cache& cache, u64 first, u64 count, u32 size,
                            optional<u64> index, Stores stores, Move move, u64 timeout_ns, Held&... held);

// An element that a word moves, and what a lane is told of it.
template <class T> struct loaded {
    T value;
    status said;
};
// By way of a pin: of a page that is not there, or an element across two. Apart from the code of a hit.
template <class T, class Group, class Cache>
WARPBELL_NOINLINE loaded<T> load_pinned(const Group& group, Cache& cache, u64 first, u64 count,
                                        optional<u64> index, u64 timeout_ns);

} // namespace detail

// The elements of an array that lie in one page as a whole, as long as this lives.
template <class T, class Cache, class Group> class element_guard {
  public:
    WARPBELL_D element_guard(const Group& group, Cache& cache, u64 first_byte, u64 index, u64 count,
                             u64 timeout_ns)
        : page_(group, cache, (first_byte + index * sizeof(T)) / cache.page_bytes(), timeout_ns),
          page_begin_((first_byte + index * sizeof(T)) / cache.page_bytes() * cache.page_bytes()),
          page_end_(page_begin_ + cache.page_bytes()), first_byte_(first_byte), count_(count) {}

    WARPBELL_D explicit operator bool() const { return static_cast<bool>(page_); }
    WARPBELL_D status result() const { return page_.result(); }
    // Whether this element may be asked for here.
    WARPBELL_D bool contains(u64 index) const {
        const u64 at = first_byte_ + index * sizeof(T);
        return page_ && index < count_ && at >= page_begin_ && at + sizeof(T) <= page_end_;
    }
    WARPBELL_D T operator[](u64 index) const {
        const u8* const data = page_.template data<u8>() + offset(index);
        if constexpr (detail::word_of<sizeof(T)>::exists) {
            alignas(typename detail::word_of<sizeof(T)>::type) T value;
            detail::load_part(value, data, 0, sizeof(T));
            return value;
        } else {
            T value;
            detail::copy_bytes(&value, data, sizeof(T));
            return value;
        }
    }
    // False: the cache is for reading.
    WARPBELL_D bool set(u64 index, T value) {
        u8* const data = page_.template writable<u8>();
        if (data == nullptr) {
            return false;
        }
        if constexpr (detail::word_of<sizeof(T)>::exists) {
            detail::store_part(data + offset(index), value, 0, sizeof(T));
        } else {
            detail::copy_bytes(data + offset(index), &value, sizeof(T));
        }
        return true;
    }
    WARPBELL_D void release() { page_.release(); }

  private:
    WARPBELL_D u64 offset(u64 index) const { return first_byte_ + index * sizeof(T) - page_begin_; }

    page_guard<Cache, Group> page_;
    const u64 page_begin_, page_end_, first_byte_, count_;
};

// `T`: plain bytes.
template <class T, class Cache> class array_view {
  public:
    WARPBELL_D array_view(Cache& cache, u64 first_byte, u64 count)
        : cache_(cache), first_byte_(first_byte), count_(count),
          inside_(detail::elements_inside(cache, first_byte, count, sizeof(T))) {}

    WARPBELL_D u64 size() const { return count_; }

    template <class Group>
    WARPBELL_D status try_load(const Group& group, optional<u64> index, T& value, u64 timeout_ns = 0);
    template <class Group>
    WARPBELL_D status store(const Group& group, optional<u64> index, T value, u64 timeout_ns = 0);
    // T: 32 or 64 bits, unsigned, at a multiple of its size; else `misaligned`.
    template <class Group>
    WARPBELL_D status atomic_add(const Group& group, optional<u64> index, T value, u64 timeout_ns = 0);
    // By all lanes of the warp.
    WARPBELL_D T operator[](u64 index);
    // The page of element `index`, which must be one of the array's.
    template <class Group>
    WARPBELL_D element_guard<T, Cache, group_type<Group>> acquire(const Group& group, u64 index,
                                                                  u64 timeout_ns = 0) {
        return element_guard<T, Cache, group_type<Group>>(group_of(group), cache_, first_byte_, index, count_,
                                                          timeout_ns);
    }

  private:
    // try_load; `held` are values of the caller, which are in no registers while a page is missing.
    template <class Group, class... Held>
    WARPBELL_D status load_holding(const Group& group, optional<u64> index, T& value, u64 timeout_ns,
                                   Held&... held);
    template <class Group, class Stores, class Move>
    WARPBELL_D status each_part(const Group& group, optional<u64> index, Stores stores, Move move,
                                u64 timeout_ns) {
        return detail::each_part(group, cache_, first_byte_, inside_, sizeof(T), index, stores, move,
                                 timeout_ns);
    }

    Cache& cache_;
    const u64 first_byte_, count_, inside_;
};

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell

#include "impl/array.cuh"
