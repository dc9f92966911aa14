// Commands for a namespace. Checked before submission; split where the controller takes less at once.
//
//   wb::status s = wb::read(warp, ssd, {wb::lba{0}, 8}, data);                   // the same in each lane
//   wb::io_token t = wb::submit_each(warp, ssd, wb::command::write(mine, own, wb::command::fua));
//   ..                                                                           // compute
//   s = wb::wait_each(warp, ssd, wb::move(t));                                   // each lane's own
//
// | call                                    | arguments             | status                            |
// | --------------------------------------- | --------------------- | --------------------------------- |
// | run (group, session, command)           | the same in each lane | one I/O; the same in each lane    |
// | submit -> wait                          | the same in each lane | the same in each lane             |
// | run_each                                | each lane its own     | each lane its own; one doorbell   |
// | submit_each -> wait_each, try_wait      | each lane its own     | each lane its own                 |
// | read, write, flush; read_each, .._each  | as run and run_each   |                                   |
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
namespace detail {

// Whether it needs the right to write.
WARPBELL_HD constexpr bool changes_medium(opcode op) { return op != opcode::read && op != opcode::compare; }
// Whether it is known to name blocks by its dwords 10 to 12, and no others. Nobody has checked what else a
// controller may touch by an opcode that is not here: Copy has its blocks in its data.
WARPBELL_HD constexpr bool for_blocks(opcode op) {
    return op == opcode::read || op == opcode::write || op == opcode::compare || op == opcode::write_zeroes;
}
// Whether a command for blocks carries data of as many bytes.
WARPBELL_HD constexpr bool carries_blocks(opcode op) { return op != opcode::write_zeroes; }
// The flag of a namespace that lacks it; 0: each SSD has it.
WARPBELL_HD constexpr u32 flag_of_lack(opcode op) {
    return op == opcode::compare              ? WARPBELL_NAMESPACE_NO_COMPARE
           : op == opcode::write_zeroes       ? WARPBELL_NAMESPACE_NO_WRITE_ZEROES
           : op == opcode::dataset_management ? WARPBELL_NAMESPACE_NO_DEALLOCATE
                                              : 0u;
}
// Whether the bits that one may choose are as they may be: 15:0 of dword 12 are the number of blocks, and a
// flush has none of the others either.
WARPBELL_D bool fits_flags(opcode op, u32 flags) {
    return (flags & (op == opcode::flush ? ~0u : 0xffffu)) == 0 || mutate::command_unchecked;
}
// Whether a command of each lane, or one that may be split, is made so.
WARPBELL_D bool is_taken(opcode op, u32 flags) {
    return (for_blocks(op) || mutate::command_unchecked) && fits_flags(op, flags);
}

} // namespace detail

// What an SSD is to do, with data in a `Span`. Without `where` it is none: nothing is sent, and the answer is
// success. Of more blocks than one command moves: run splits it, submit does over the lanes of its group,
// submit_each refuses it with too_large. The _each calls refuse a flush with invalid_field; every call
// refuses dataset_management so (deallocate.cuh).
template <class Span> struct basic_command {
    static constexpr u32 fua = mutate::fua_forgotten ? 0 : 1u << 30; // Force Unit Access

    opcode op = opcode::flush;
    optional<extent> where;
    Span data;
    u32 flags = 0; // of dword 12, bits 31:16, not of a flush; others are refused with invalid_field

    WARPBELL_D static basic_command read(optional<extent> from, const Span& to, u32 flags = 0) {
        return {opcode::read, from, to, flags};
    }
    WARPBELL_D static basic_command write(optional<extent> to, const Span& from, u32 flags = 0) {
        return {opcode::write, to, from, flags};
    }
    // Its status says whether the blocks differ from the data: status::differs.
    WARPBELL_D static basic_command compare(optional<extent> where, const Span& with, u32 flags = 0) {
        return {opcode::compare, where, with, flags};
    }
    WARPBELL_D static basic_command write_zeroes(optional<extent> where, u32 flags = 0) {
        return {opcode::write_zeroes, where, Span(), flags};
    }
    // Makes durable what was answered before.
    WARPBELL_D static basic_command flush() { return {opcode::flush, extent(), Span(), 0}; }
};
using command = basic_command<dma_span>;
static_assert(__is_trivially_copyable(command));

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
        : ns_(&ns), queue_(group_of(group), queue_ref_of(ns, warp), warp / ns.queue_count),
          retries_(retries) {}
    template <class Group>
    session(const Group& group, const warpbell_namespace_ref&& ns, u32 warp,
            Retry retries = Retry()) = delete;

    // After queue_lost: waits for the queue that the host puts in place of the lost one, and goes on with it.
    // Made by the lanes that call together. Success: the buffers of all earlier commands are free, and what
    // is left of their tokens is answered queue_lost. queue_lost: none came by the deadline. ssd_lost: none
    // will come.
    template <class Group> WARPBELL_D status switch_to_successor(const Group& group, u64 timeout_ns = 0) {
        return queue_.switch_to_successor(group_of(group), timeout_ns);
    }
    // Exclusive: saves the queue for the next kernel. Last call.
    template <class Group> WARPBELL_D void detach(const Group& group) { queue_.detach(group_of(group)); }

    WARPBELL_D u64 blocks() const { return ns_->blocks; }
    WARPBELL_D u32 nsid() const { return ns_->nsid; }
    WARPBELL_D u32 block_bytes() const { return 1u << ns_->block_shift; }
    // The most blocks that one command moves.
    WARPBELL_D u32 max_blocks() const { return ns_->max_blocks; }
    // The most blocks of one command with this opcode: Write Zeroes may have a limit of its own.
    WARPBELL_D u32 max_blocks(opcode op) const {
        const u32 own = op == opcode::write_zeroes && !mutate::zeroes_limit_ignored ? ns_->zeroes_blocks : 0;
        return own != 0 ? own : ns_->max_blocks;
    }
    // Whether the SSD has such a command. Others are refused with status::invalid_opcode, and not sent.
    WARPBELL_D bool has(opcode op) const {
        return (ns_->flags & detail::flag_of_lack(op)) == 0 || mutate::missing_command_sent;
    }
    // Why a Dataset Management would be refused with so many ranges, the longest of so many blocks, and all
    // of them of `blocks`; or success.
    WARPBELL_D status check_ranges(u32 ranges, u32 longest, u64 blocks) const;
    // The layer below, for commands of one's own.
    WARPBELL_D warpbell::queue<Mode>& queue() { return queue_; }

    // The policy, with what it has counted.
    WARPBELL_D Retry& retries() { return retries_; }
    // Command Retry Delay Time `index`, 1 to 3.
    WARPBELL_D u64 retry_delay_ns(u32 index) const {
        return static_cast<u64>(ns_->crdt[index - 1u]) * 100000000u;
    }

    // Why one command for `where` and `data` would be refused, or success. A kernel that was handed a lease
    // stays within it; commands of one's own (`queue`) are not looked at.
    WARPBELL_D status check(opcode op, extent where, const dma_span& data) const;
    // The same for the blocks alone, however many.
    WARPBELL_D status check_blocks(opcode op, extent where) const;
    // The same for the data alone, of one command.
    WARPBELL_D status check_data(const dma_span& data, u64 bytes) const;
    // The entry of a command that passed `check`.
    WARPBELL_D sqe entry(opcode op, extent where, const dma_span& data) const;
    // The entry of a command with data that passed `check_data`; dwords 10 to 15 are zero.
    WARPBELL_D sqe entry(opcode op, const dma_span& data, u64 bytes) const;

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

// ---- one for the group

template <class Group, sharing Mode, class Retry>
WARPBELL_D status run(const Group& group, session<Mode, Retry>& s, const command& what, u64 timeout_ns = 0);
// Up to one command of each lane.
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token submit(const Group& group, session<Mode, Retry>& s, const command& what,
                           u64 timeout_ns = 0);
// Consumes the token: an empty one is success, a refused one is answered with the reason.
template <class Group, sharing Mode, class Retry>
WARPBELL_D status wait(const Group& group, session<Mode, Retry>& s, io_token&& token, u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D status read(const Group& group, session<Mode, Retry>& s, extent from, const dma_span& to,
                       u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D status write(const Group& group, session<Mode, Retry>& s, extent to, const dma_span& from,
                        u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D status flush(const Group& group, session<Mode, Retry>& s, u64 timeout_ns = 0);

// ---- one of each lane

template <class Group, sharing Mode, class Retry>
WARPBELL_D status run_each(const Group& group, session<Mode, Retry>& s, const command& mine,
                           u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token submit_each(const Group& group, session<Mode, Retry>& s, const command& mine,
                                u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D status wait_each(const Group& group, session<Mode, Retry>& s, io_token&& token,
                            u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D status read_each(const Group& group, session<Mode, Retry>& s, optional<extent> from,
                            const dma_span& to, u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D status write_each(const Group& group, session<Mode, Retry>& s, optional<extent> to,
                             const dma_span& from, u64 timeout_ns = 0);
// Collects what has come, and does not wait: each lane's own answer, if it is there. Consumes the token then.
template <class Group, sharing Mode, class Retry>
WARPBELL_D optional<status> try_wait(const Group& group, session<Mode, Retry>& s, io_token& token);

// ---- of this thread alone

template <sharing Mode, class Retry>
WARPBELL_D status run(session<Mode, Retry>& s, const command& what, u64 timeout_ns = 0);
template <sharing Mode, class Retry>
WARPBELL_D io_token submit(session<Mode, Retry>& s, const command& what, u64 timeout_ns = 0);
template <sharing Mode, class Retry>
WARPBELL_D status wait(session<Mode, Retry>& s, io_token&& token, u64 timeout_ns = 0);
template <sharing Mode, class Retry>
WARPBELL_D status read(session<Mode, Retry>& s, extent from, const dma_span& to, u64 timeout_ns = 0);
template <sharing Mode, class Retry>
WARPBELL_D status write(session<Mode, Retry>& s, extent to, const dma_span& from, u64 timeout_ns = 0);
template <sharing Mode, class Retry> WARPBELL_D status flush(session<Mode, Retry>& s, u64 timeout_ns = 0);

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell

#include "impl/retry.cuh"

#include "impl/pieces.cuh"

#include "impl/io.cuh"
