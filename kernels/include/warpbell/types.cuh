// Vocabulary: block addresses, extents, data spans, and the few std types that device code lacks.
#pragma once

#include "port.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

using port::u16;
using port::u32;
using port::u64;
using port::u8;

// A logical block address. The constructor is explicit, so that a bare number is never taken for one.
struct lba {
    u64 value = 0;
    lba() = default;
    WARPBELL_HD explicit constexpr lba(u64 v) : value(v) {}
};

// Blocks [start, start + blocks).
struct extent {
    lba start;
    u32 blocks = 0;
};

struct nullopt_t {};
constexpr nullopt_t nullopt{};

// A value or nothing.
template <class T> class optional {
  public:
    WARPBELL_HD constexpr optional() : value_(), has_(false) {}
    WARPBELL_HD constexpr optional(nullopt_t) : value_(), has_(false) {}
    WARPBELL_HD constexpr optional(T value) : value_(value), has_(true) {}
    // Of an extent in braces, such as {lba(0), 8}.
    template <class Count>
    WARPBELL_HD constexpr optional(lba start, Count blocks)
        : value_{start, static_cast<u32>(blocks)}, has_(true) {}
    WARPBELL_HD constexpr explicit operator bool() const { return has_ != 0; }
    WARPBELL_HD constexpr bool has_value() const { return has_ != 0; }
    WARPBELL_HD constexpr const T& operator*() const { return value_; }
    WARPBELL_HD constexpr const T* operator->() const { return &value_; }

  private:
    T value_;
    u32 has_; // not a bool: a byte costs instructions
};

template <class T> struct remove_reference {
    using type = T;
};
template <class T> struct remove_reference<T&> {
    using type = T;
};
template <class T> struct remove_reference<T&&> {
    using type = T;
};
// std::move, which run-time compilation has no header for.
template <class T> WARPBELL_HD constexpr typename remove_reference<T>::type&& move(T&& value) {
    return static_cast<typename remove_reference<T>::type&&>(value);
}

// Part of a registered buffer. Trivially copyable; refers to the kernel's warpbell_buffer_ref, which
// must outlive it.
class dma_span {
  public:
    dma_span() = default;
    WARPBELL_HD explicit dma_span(const warpbell_buffer_ref& buffer)
        : buffer_(&buffer), offset_(0), bytes_(buffer.bytes) {}
    explicit dma_span(const warpbell_buffer_ref&&) = delete;

    // Bytes [offset, offset + bytes) of this span. Not clipped: what leaves the buffer is refused with
    // out_of_buffer when it is used.
    WARPBELL_HD dma_span subspan(u64 offset, u64 bytes) const {
        dma_span part = *this;
        part.offset_ += offset;
        part.bytes_ = bytes;
        return part;
    }
    WARPBELL_HD u64 bytes() const { return bytes_; }
    WARPBELL_HD u64 offset() const { return offset_; }
    WARPBELL_HD const warpbell_buffer_ref& buffer() const { return *buffer_; }
    WARPBELL_HD bool inside() const {
        return buffer_ && bytes_ <= buffer_->bytes && offset_ <= buffer_->bytes - bytes_;
    }
    // Where kernels see it.
    template <class T> WARPBELL_HD T* data() const { return reinterpret_cast<T*>(buffer_->data + offset_); }
    // Where the controller sees it.
    WARPBELL_HD u64 iova() const { return buffer_->iova + offset_; }

  private:
    const warpbell_buffer_ref* buffer_ = nullptr;
    u64 offset_ = 0;
    u64 bytes_ = 0;
};

// What kernels are launched with, and what they make of it, is copied as bytes.
static_assert(__is_trivially_copyable(warpbell_namespace_ref) &&
              __is_trivially_copyable(warpbell_buffer_ref));
static_assert(__is_trivially_copyable(warpbell_queue_ref));
static_assert(__is_trivially_copyable(extent) && __is_trivially_copyable(optional<extent>) &&
              __is_trivially_copyable(dma_span));

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
