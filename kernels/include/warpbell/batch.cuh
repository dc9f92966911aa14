// Requests of all threads of a group, a block or a warp, as one batch.
//
//   __shared__ wb::io_batch<64>::storage shared; // the caller's: any memory of the block
//   wb::session<wb::sharing::exclusive> ssd(wb::this_warp(), args.ns, warp); // of each warp, its own
//   wb::io_batch<64> batch(wb::this_block(), shared);
//   wb::status refused = batch.read(slot, {wb::lba{i}, 8}, data); // any thread, any slot
//   batch.submit(wb::this_block(), ssd);
//   ..                                                            // compute
//   wb::status all = batch.wait(wb::this_block(), ssd); // then anybody reads batch[slot]
//
// | call                       | who calls                     | result                                 |
// | -------------------------- | ----------------------------- | -------------------------------------- |
// | io_batch(group, storage)   | the group                     | all slots empty                        |
// | read, write, flush, add    | any thread, each another slot | success, or why nothing was added      |
// | submit, wait               | the group, each warp its      | of all requests: success, or a failure |
// |                            | session                       |                                        |
// | operator[]                 | any thread, after wait        | a request's status, and bytes moved    |
//
// A warp submits the requests of its own part of the slots, by its own session: of a block of W warps, warp w
// has the slots 32 * (w + i * W) and the 31 behind each. A part's commands go under one doorbell for each 32.
// So an exclusive queue is used by the warp that owns it and by no other. A warp without a queue calls submit
// and wait without a session; the warps that have one come first in the block, and the constructor is
// told how many they are. What a session refuses, its warp's requests are answered with: invalid_field,
// if it has no place on its queue.
//
// A request larger than one command is split and answered once: by a failure that leaves its buffer to the
// SSD before any other, else by the first. After a failure no further commands of that request are sent.
// All commands of a batch have one deadline, from submit on.
//
// Between submit and wait nobody adds; between two batches the group syncs, if a thread adds to a slot whose
// answer another thread reads. Data of a write is what any thread of the group stored before submit; data of
// a read is visible to every thread of the group after wait. Threads of other blocks synchronise as always.
#pragma once

#include "io.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

struct batch_answer {
    status result; // success of a slot without a request
    u64 bytes = 0; // from the request's start on, as far as it was moved without a gap
};

template <u32 Slots> class io_batch {
  public:
    static_assert(Slots >= 1 && Slots <= 4096, "1 to 4096 requests");

    // In memory that all threads of the group see. Its content is the library's.
    struct storage {
        alignas(16) u32 request[4][Slots][4];
        u32 answer[Slots][4];
        u32 first[Slots];
        u32 worst[WARPBELL_WARP_LANES];
    };

    // `submitters`: of a block, so many warps have a session, from its first on.
    template <class Group>
    WARPBELL_D io_batch(const Group& group, storage& shared, u32 submitters = WARPBELL_WARP_LANES);

    // Puts a request into an empty slot, or one that was answered. no_room: it has one that was not.
    // invalid_field: there is no such slot, or the request has more data than an extent (`add`).
    // out_of_buffer. All else is found out by submit, and is the request's answer.
    WARPBELL_D status read(u32 slot, extent from, const dma_span& to) {
        return add(slot, command::read(from, to));
    }
    WARPBELL_D status write(u32 slot, extent to, const dma_span& from) {
        return add(slot, command::write(to, from));
    }
    WARPBELL_D status flush(u32 slot) { return add(slot, command::flush()); }
    // Any command. One without an extent adds nothing.
    WARPBELL_D status add(u32 slot, const command& what);

    // Sends the first command of each lane. invalid_batch, as the requests' answer: the block does not
    // consist of whole warps.
    template <class Group, sharing Mode, class Retry>
    WARPBELL_D void submit(const Group& group, session<Mode, Retry>& s, u64 timeout_ns = 0);
    // Sends the rest, and waits for all. Success, or: a failure that leaves a buffer to the SSD, else any.
    template <class Group, sharing Mode, class Retry>
    WARPBELL_D status wait(const Group& group, session<Mode, Retry>& s);
    // The same by a warp without a session.
    template <class Group> WARPBELL_D void submit(const Group& group) {
        (void)gather(detail::block_or_warp(group));
    }
    template <class Group> WARPBELL_D status wait(const Group& group);

    WARPBELL_D batch_answer operator[](u32 slot) const;

  private:
    static constexpr u32 asked = 1u << 31; // in place of a status: there is none yet
    static constexpr u32 nobody = ~0u;
    // Of one request; more are too_large.
    static constexpr u32 most_commands = 0xffff;

    // A request, as its warp reads it.
    struct request {
        extent where;
        opcode op;
        u32 flags;
        u64 offset, bytes;
        warpbell_buffer_ref buffer;
        WARPBELL_D dma_span data() const { return dma_span(buffer).subspan(offset, bytes); }
    };

    WARPBELL_D request load(u32 slot) const;
    WARPBELL_D bool is_asked(u32 slot) const {
        return (port::load_relaxed_any(shared_.answer[slot]) & asked) != 0;
    }
    WARPBELL_D void answer(u32 slot, u32 word, u64 bytes) {
        port::store_quad_any(shared_.answer[slot], word, 0, static_cast<u32>(bytes),
                             static_cast<u32>(bytes >> 32));
    }
    WARPBELL_D u32 slot_of(u32 k) const;
    WARPBELL_D u32 find(u32 command) const;
    template <class Group> WARPBELL_D bool gather(const Group& group);
    template <sharing Mode, class Retry>
    WARPBELL_D u32 commands_of(const session<Mode, Retry>& s, u32 slot, status& refusal) const;
    template <class Warp, sharing Mode, class Retry>
    WARPBELL_D void number(const Warp& warp, const session<Mode, Retry>& s);
    template <class Warp, sharing Mode, class Retry>
    WARPBELL_D void start(const Warp& warp, session<Mode, Retry>& s, u64 timeout_ns);
    template <class Warp, sharing Mode, class Retry>
    WARPBELL_D io_token send(const Warp& warp, session<Mode, Retry>& s, bool want, u64 timeout_ns) const;
    template <class Warp, sharing Mode, class Retry>
    WARPBELL_D status finish(const Warp& warp, session<Mode, Retry>& s, u64 left_ns);
    template <class Warp, sharing Mode, class Retry>
    WARPBELL_D void note(const Warp& warp, const session<Mode, Retry>& s, status said);
    template <class Group> WARPBELL_D status worst_of_all(const Group& group) const;

    storage& shared_;
    u32 warp_, warps_;  // this warp's place among those that submit; how many they are
    u32 mine_ = 0;      // slots of this warp
    u32 commands_ = 0;  // of this warp,
    u32 next_ = 0;      // of which those before this one were sent and answered
    u32 slot_ = nobody; // of this lane's command now,
    u32 piece_ = 0;     // and which of the request's it is
    status worst_;      // of this lane's
    u64 begin_ns_ = 0, total_ns_ = 0;
    io_token token_;
};

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell

#include "impl/batch.cuh"
