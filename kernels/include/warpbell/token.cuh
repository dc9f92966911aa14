// Proof that a command is in flight.
#pragma once

#include "status.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

// Move-only: each submitted command is answered exactly once, to whoever holds its token. Dropping a
// token that is in flight leaks its command id until the next attach. A token that was refused holds
// the reason, and is answered with it.
class [[nodiscard]] io_token {
  public:
    WARPBELL_D io_token() : bits_(empty) {}
    io_token(const io_token&) = delete;
    void operator=(const io_token&) = delete;
    WARPBELL_D io_token(io_token&& other) noexcept : bits_(other.bits_) { other.bits_ = empty; }
    // Returns nothing: assigning is not a result to look at.
    WARPBELL_D void operator=(io_token&& other) noexcept {
        const u64 bits = other.bits_;
        other.bits_ = empty;
        bits_ = bits;
    }

    // The command was submitted and has not been answered.
    WARPBELL_D bool in_flight() const { return (bits_ >> 48) == 0; }
    // There is an answer to be had: in flight, or refused.
    WARPBELL_D bool valid() const { return bits_ != empty; }
    WARPBELL_D u32 cid() const { return static_cast<u32>(bits_) & 0xffffu; }
    WARPBELL_D u32 generation() const { return static_cast<u32>(bits_ >> 16) & 0xffffu; }
    WARPBELL_D u32 queue_tag() const { return static_cast<u32>(bits_ >> 32) & 0xffffu; }
    // Why nothing was submitted; success of an empty token. Not in flight.
    WARPBELL_D status refusal() const {
        return status::from_bits(static_cast<u32>(bits_ >> 48) & ~empty_mark);
    }

    // The same, and `in_flight` of a token in flight. Opaque: else the compiler branches.
    WARPBELL_D status refusal_or(status in_flight) const {
        const u32 mark = port::opaque(static_cast<u32>(bits_ >> 48));
        return mark == 0 ? in_flight : status::from_bits(mark & ~empty_mark);
    }

    // For the library and its tests: 63:48 refusal (0: in flight), 47:32 queue tag, 31:16 generation, 15:0
    // command id (of a wide one its low half: the rest is the attached warp's slot).
    WARPBELL_D u64 bits() const { return bits_; }
    WARPBELL_D static io_token from_bits(u64 bits) {
        io_token token;
        token.bits_ = bits;
        return token;
    }
    WARPBELL_D static io_token refused(status why) { return from_bits(static_cast<u64>(why.bits) << 48); }
    WARPBELL_D static io_token submitted(u32 queue_tag, u32 cid, u32 generation) {
        return from_bits(port::pair(generation << 16 | (cid & 0xffffu), queue_tag));
    }
    // Tells queues apart that one lane attaches to, one after the other: a queue id comes back, and so do
    // command ids and generations. Of the epoch low bits suffice: nobody keeps a token over 16 losses.
    WARPBELL_D static u32 tag(u32 qid, u32 epoch) { return (qid + (epoch << epoch_shift)) & 0xffffu; }
    WARPBELL_D void reset() { bits_ = empty; }

  private:
    static constexpr u32 epoch_shift = 12;
    // More, which no status has that the library makes.
    static constexpr u32 empty_mark = 0x2000;
    static constexpr u64 empty = static_cast<u64>(empty_mark) << 48;
    u64 bits_;
};

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
