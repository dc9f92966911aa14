// Reads, writes and flushes of a namespace. Checked before submission; split where the controller takes
// less at once.
//
// | call                                    | arguments             | status                            |
// | --------------------------------------- | --------------------- | --------------------------------- |
// | read, write, flush (group, session, ..) | the same in each lane | one I/O; the same in each lane    |
// | read_async, .., flush_async -> wait     | the same in each lane | the same in each lane             |
// | read_each, write_each                   | each lane its own     | each lane its own; one doorbell   |
// | read_each_async, .. -> wait_each        | each lane its own     | each lane its own                 |
//
// Without a group: this thread alone. A group is a warp group (group.cuh); all its lanes make the call.
// When a read has been answered, its data is visible to the lanes that got the status. Every wait has
// a deadline, the queue's unless the call names one; an I/O that takes several rounds of commands has one
// for all of them. A status of `timed_out` means that the controller may still use the buffer, one of
// `not_submitted` that the deadline passed between commands: it does not.
#pragma once

#include "queue.cuh"
#include "retry.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

enum class opcode : u8 {
    flush = 0x00,
    write = 0x01,
    read = 0x02,
    compare = 0x05,
    write_zeroes = 0x08,
    dataset_management = 0x09,
};
// Whether it needs the right to write.
WARPBELL_HD constexpr bool changes_medium(opcode op) { return op != opcode::read && op != opcode::compare; }
// Whether a command for blocks carries data of as many bytes.
WARPBELL_HD constexpr bool carries_blocks(opcode op) { return op != opcode::write_zeroes; }

// A warp's way to a namespace: the queue it was mapped to, and its command ids there. Warp w of the
// launch uses queue w mod queue_count, and warp slot w div queue_count on it. Exclusive: `group` owns
// the queue, so all its lanes make every call together. Retry: whether blocking calls submit commands again
// that failed for now (retry.cuh). `ns` must outlive the session, and is read by each call: an argument of
// the kernel, or memory of the GPU.
template <sharing Mode, class Retry = no_retry> class session {
  public:
    template <class Group>
    WARPBELL_D session(const Group& group, const warpbell_namespace_ref& ns, u32 warp,
                       Retry retries = Retry())
        : ns_(&ns), queue_(group, queue_ref_of(ns, warp), warp / ns.queue_count), retries_(retries) {}
    template <class Group>
    session(const Group& group, const warpbell_namespace_ref&& ns, u32 warp,
            Retry retries = Retry()) = delete;

    // After queue_lost: waits for the queue that the host puts in place of the lost one, and goes on with it.
    // Made by the lanes that call together. Success: the buffers of all earlier commands are free, and what
    // is left of their tokens is answered queue_lost. queue_lost: none came by the deadline. ssd_lost: none
    // will come.
    template <class Group> WARPBELL_D status switch_to_successor(const Group& group, u64 timeout_ns = 0) {
        return queue_.switch_to_successor(group, timeout_ns);
    }
    // Exclusive: saves the queue for the next kernel. Last call.
    template <class Group> WARPBELL_D void detach(const Group& group) { queue_.detach(group); }

    WARPBELL_D u64 blocks() const { return ns_->blocks; }
    WARPBELL_D u32 nsid() const { return ns_->nsid; }
    WARPBELL_D u32 block_bytes() const { return 1u << ns_->block_shift; }
    // The most blocks that one command moves.
    WARPBELL_D u32 max_blocks() const { return ns_->max_blocks; }
    // The layer below, for commands of one's own.
    WARPBELL_D warpbell::queue<Mode>& queue() { return queue_; }

    // The policy, with what it has counted.
    WARPBELL_D Retry& retries() { return retries_; }
    // Command Retry Delay Time `index`, 1 to 3.
    WARPBELL_D u64 retry_delay_ns(u32 index) const {
        return static_cast<u64>(ns_->crdt[index - 1u]) * 100000000u;
    }

    // Why a command for `where` and `data` would be refused, or success. A kernel that was handed a lease
    // stays within it; commands of one's own (`queue`) are not looked at.
    WARPBELL_D status check(opcode op, extent where, const dma_span& data) const;
    // The same for the blocks alone, however many.
    WARPBELL_D status check_blocks(opcode op, extent where) const;
    // The same for the data alone, of one command.
    WARPBELL_D status check_data(const dma_span& data, u64 bytes) const;
    // The entry of a command that passed `check`.
    WARPBELL_D sqe command(opcode op, extent where, const dma_span& data) const;
    // The entry of a command with data that passed `check_data`; dwords 10 to 15 are zero.
    WARPBELL_D sqe command(opcode op, const dma_span& data, u64 bytes) const;

  private:
    WARPBELL_D static const warpbell_queue_ref& queue_ref_of(const warpbell_namespace_ref& ns, u32 warp) {
        return reinterpret_cast<const warpbell_queue_ref*>(ns.queues)[warp % ns.queue_count];
    }
    WARPBELL_D bool uses_sgl() const { return (ns_->flags & WARPBELL_NAMESPACE_SGL) != 0; }
    WARPBELL_D u32 list_entries(u64 iova, u64 bytes) const;
    WARPBELL_D bool is_leased(u64 iova, u64 bytes) const;

    const warpbell_namespace_ref* ns_;
    warpbell::queue<Mode> queue_;
    Retry retries_;
};

// ---- one I/O for the group
// ---------------------------------------------------------------------------------

template <class Group, sharing Mode, class Retry>
WARPBELL_D status read(const Group& group, session<Mode, Retry>& s, extent from, const dma_span& to,
                       u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D status write(const Group& group, session<Mode, Retry>& s, extent to, const dma_span& from,
                        u64 timeout_ns = 0);
// Makes what was written before durable.
template <class Group, sharing Mode, class Retry>
WARPBELL_D status flush(const Group& group, session<Mode, Retry>& s, u64 timeout_ns = 0);

// At most group.size() * max_blocks() blocks, else too_large.
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token read_async(const Group& group, session<Mode, Retry>& s, extent from, const dma_span& to,
                               u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token write_async(const Group& group, session<Mode, Retry>& s, extent to, const dma_span& from,
                                u64 timeout_ns = 0);
// One command, of the group's leader.
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token flush_async(const Group& group, session<Mode, Retry>& s, u64 timeout_ns = 0);
// For tokens of calls with the same arguments in each lane: one answer for the I/O, in every lane.
template <class Group, sharing Mode, class Retry>
WARPBELL_D status wait(const Group& group, session<Mode, Retry>& s, io_token&& token, u64 timeout_ns = 0);

// ---- one I/O per lane
// --------------------------------------------------------------------------------------

// Lanes with nothing to do pass nullopt and get success.
template <class Group, sharing Mode, class Retry>
WARPBELL_D status read_each(const Group& group, session<Mode, Retry>& s, optional<extent> from,
                            const dma_span& to, u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D status write_each(const Group& group, session<Mode, Retry>& s, optional<extent> to,
                             const dma_span& from, u64 timeout_ns = 0);
// One command per lane: at most max_blocks() blocks, else too_large.
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token read_each_async(const Group& group, session<Mode, Retry>& s, optional<extent> from,
                                    const dma_span& to, u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token write_each_async(const Group& group, session<Mode, Retry>& s, optional<extent> to,
                                     const dma_span& from, u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D status wait_each(const Group& group, session<Mode, Retry>& s, io_token&& token,
                            u64 timeout_ns = 0);

// This lane's command, if it has completed. Of a read_async that was split: this lane's part.
template <sharing Mode, class Retry>
WARPBELL_D optional<status> try_wait(session<Mode, Retry>& s, io_token& token);

// ---- without a group: this thread
// --------------------------------------------------------------------------

template <sharing Mode, class Retry>
WARPBELL_D status read(session<Mode, Retry>& s, extent from, const dma_span& to, u64 timeout_ns = 0);
template <sharing Mode, class Retry>
WARPBELL_D status write(session<Mode, Retry>& s, extent to, const dma_span& from, u64 timeout_ns = 0);
template <sharing Mode, class Retry> WARPBELL_D status flush(session<Mode, Retry>& s, u64 timeout_ns = 0);
template <sharing Mode, class Retry>
WARPBELL_D io_token read_async(session<Mode, Retry>& s, extent from, const dma_span& to, u64 timeout_ns = 0);
template <sharing Mode, class Retry>
WARPBELL_D io_token write_async(session<Mode, Retry>& s, extent to, const dma_span& from, u64 timeout_ns = 0);
template <sharing Mode, class Retry>
WARPBELL_D io_token flush_async(session<Mode, Retry>& s, u64 timeout_ns = 0);
template <sharing Mode, class Retry>
WARPBELL_D status wait(session<Mode, Retry>& s, io_token&& token, u64 timeout_ns = 0);

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell

#include "impl/retry.cuh"

#include "impl/pieces.cuh"

#include "impl/io.cuh"
