// Several SSDs as one: striped, replicated, or one after the other. They may differ in size, block size and
// queues.
//
//   wb::volume<wb::sharing::shared, 4> v(warp, args.volume, warp_number); // up to four SSDs
//   const wb::volume_span mine = wb::volume_span(args.buffer).subspan(...);
//   wb::status s = wb::read_each(warp, v, wb::extent{wb::lba{i}, 1}, mine);
//   v.detach(warp);
//
// | call                                 | arguments             | status                             |
// | ------------------------------------ | --------------------- | ---------------------------------- |
// | run (group, volume, volume_command)  | the same in each lane | one I/O; the same in each lane     |
// | run_each                             | each lane its own     | each lane its own                  |
// | read, write, flush; read_each, ..    | as run and run_each   |                                    |
// | submit_read_each -> wait_each        | each lane its own     | each lane its own                  |
//
// A flush is of every SSD. Of several parts the first failure is the answer, or that blocks differ.
//
// Calls, groups and deadlines are those of io.cuh; but each command has the deadline for itself, once for
// room and once for its answer, so that one SSD's silence does not use up the others' time. A call may last
// that long for each SSD that it touches; replicated, for each part of an I/O. Commands go to all SSDs that a
// part of an I/O touches before the first is waited for. No command crosses a chunk.
//
// Replicas. A read goes to the one that the mapping names, and where that fails to the next one. So does a
// Compare; blocks that differ are its answer, and no failure. A write goes to all with its flags, and so does
// Write Zeroes. A replica that misses a write which others have is dropped before the write is reported done:
// nothing is read from it any more. The last one is never dropped: what it fails is the volume's failure. A
// replica that finds fault with the command itself (status::rejects_command) is not dropped: the call fails.
// A write that failed may leave replicas unlike, until those blocks are written again. Compare and Write
// Zeroes are refused with status::invalid_opcode, and sent to none, where one SSD lacks them. Where a replica
// does not answer a read in time, its controller may still use the buffer: the call answers `timed_out` or
// `queue_lost` (status::buffer_in_use), later reads avoid that replica, and the caller reads again into
// another buffer.
#pragma once

#include "abi_volume.h"
#include "io.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

// Part of a buffer that all SSDs of a volume have mapped. Trivially copyable; refers to the kernel's
// warpbell_volume_buffer_ref, which must outlive it.
class volume_span {
  public:
    volume_span() = default;
    WARPBELL_HD explicit volume_span(const warpbell_volume_buffer_ref& buffer)
        : buffer_(&buffer), offset_(0), bytes_(buffer.bytes) {}
    explicit volume_span(const warpbell_volume_buffer_ref&&) = delete;

    // Bytes [offset, offset + bytes) of this span. Not clipped, as with dma_span.
    WARPBELL_HD volume_span subspan(u64 offset, u64 bytes) const {
        volume_span part = *this;
        part.offset_ += offset;
        part.bytes_ = bytes;
        return part;
    }
    WARPBELL_HD u64 bytes() const { return bytes_; }
    WARPBELL_HD u32 members() const { return buffer_ ? buffer_->member_count : 0; }
    WARPBELL_HD bool inside() const {
        return buffer_ && bytes_ <= buffer_->bytes && offset_ <= buffer_->bytes - bytes_;
    }
    template <class T> WARPBELL_HD T* data() const { return reinterpret_cast<T*>(buffer_->data + offset_); }
    // As member `index` has it.
    WARPBELL_HD dma_span on(u32 index) const {
        return dma_span(reinterpret_cast<const warpbell_buffer_ref*>(buffer_->parts)[index])
            .subspan(offset_, bytes_);
    }

  private:
    const warpbell_volume_buffer_ref* buffer_ = nullptr;
    u64 offset_ = 0;
    u64 bytes_ = 0;
};
static_assert(__is_trivially_copyable(warpbell_volume_ref) &&
              __is_trivially_copyable(warpbell_volume_buffer_ref) && __is_trivially_copyable(volume_span));

// What a volume is to do. Other opcodes than those of a command's functions are refused with invalid_field.
using volume_command = basic_command<volume_span>;

// ---- mapping: warp -> queue -> SSD
//
// A mapping is a type with two functions; yours may be one. On an SSD with q queues a warp attaches to queue
// position mod q, as its warp number position div q: no two warps of a launch may have the same position.
// `replica` picks one of the members in the mask `from`, which is not empty, for a read of a chunk by a
// warp. (Where else a chunk lies is the layout's to say.)

// The bit of `mask` that comes `n` bits after its lowest, around and around.
WARPBELL_D u32 nth_member(u32 mask, u32 n) {
    for (n %= port::population(mask); n != 0; --n) {
        mask &= mask - 1u;
    }
    return port::lowest(mask);
}

// Warp after warp.
struct round_robin {
    WARPBELL_D static u32 position(u32 warp, u32) { return warp; }
    WARPBELL_D static u32 replica(const warpbell_volume_ref&, u32 from, u32 warp, u64) {
        return nth_member(from, warp);
    }
};

// As round_robin, but no pattern in warp or chunk numbers becomes one of queues and SSDs.
struct hashed {
    // Each row of q warps has its q queues in another order.
    WARPBELL_D static u32 position(u32 warp, u32 queues) {
        const u32 row = warp / queues;
        return row * queues + (warp + mix(row)) % queues;
    }
    WARPBELL_D static u32 replica(const warpbell_volume_ref&, u32 from, u32, u64 chunk) {
        return nth_member(from, mix(chunk));
    }
    WARPBELL_D static u32 mix(u64 n) { return static_cast<u32>((n + 1u) * 0x9e3779b97f4a7c15u >> 40); }
};

// All warps of a block (CTA) on one queue and one replica. Attach warp slots for it: with b blocks of w
// warps, q * w * ceil(b / q) warps.
struct by_cta {
    WARPBELL_D static u32 position(u32, u32 queues) {
        const u32 warps = (port::block_size() + WARPBELL_WARP_LANES - 1u) / WARPBELL_WARP_LANES;
        const u32 mine = port::block_index() / queues * warps + port::block_rank() / WARPBELL_WARP_LANES;
        return mine * queues + port::block_index() % queues;
    }
    WARPBELL_D static u32 replica(const warpbell_volume_ref&, u32 from, u32, u64) {
        return nth_member(from, port::block_index());
    }
};

// Reads from the replica that the host says is nearest; of several, the first.
struct nearest : round_robin {
    WARPBELL_D static u32 replica(const warpbell_volume_ref& ref, u32 from, u32, u64) {
        const auto* members = reinterpret_cast<const warpbell_volume_member*>(ref.members);
        u32 best = port::lowest(from);
        for (u32 rest = from & (from - 1u); rest != 0; rest &= rest - 1u) {
            const u32 m = port::lowest(rest);
            best = members[m].distance < members[best].distance ? m : best;
        }
        return best;
    }
};

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell

#include "impl/volume_parts.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

// ---- the volume

// A warp's way to a volume of at most `Members` SSDs: a session with each. A volume that has more refuses
// every call with invalid_field; so it does where a lane of `group` has no slot on one of them. `ref` must
// outlive the volume, and is read by each call: an argument of the kernel, or memory of the GPU.
template <sharing Mode, u32 Members, class Map = round_robin, class Retry = no_retry> class volume {
    static_assert(Members >= 1 && Members <= WARPBELL_VOLUME_MEMBERS_MAX, "a volume has 1 to 32 members");

  public:
    template <class Group>
    WARPBELL_D volume(const Group& group, const warpbell_volume_ref& ref, u32 warp, Retry retries = Retry())
        : ref_(ref), warp_(warp), sessions_(group_of(group), ref, fits(ref) ? ref.member_count : 0, warp,
                                            retries, typename detail::first_numbers<Members>::type()),
          usable_(fits(ref) && (group_of(group).ballot(lacks_a_slot()) == 0 || mutate::slotless_warp_used)) {}
    template <class Group>
    volume(const Group& group, const warpbell_volume_ref&& ref, u32 warp, Retry retries = Retry()) = delete;

    WARPBELL_D u64 blocks() const { return ref_.blocks; }
    WARPBELL_D u32 block_bytes() const { return 1u << ref_.block_shift; }
    WARPBELL_D u32 members() const { return ref_.member_count; }
    // Bit m: replica m has everything that was written.
    WARPBELL_D u32 present() const { return static_cast<u32>(port::load_relaxed_gpu(&state()->present)); }

    // Why a read or a write would be refused, or success.
    WARPBELL_D status check(extent where, const volume_span& data) const {
        return check(opcode::read, where, data, 0);
    }
    // All lanes' I/Os. `whole`: of one I/O for the group, whose arguments are alike in each lane.
    template <class Group>
    WARPBELL_D status run(const Group& group, opcode op, optional<extent> where, const volume_span& data,
                          bool whole, u64 timeout_ns, u32 flags = 0);
    template <class Group> WARPBELL_D status flush(const Group& group, u64 timeout_ns);

    // ---- a read of each lane that nobody waits for yet, of one command on one member

    // Submits it, and waits for room. The token has the reason where it is refused.
    template <class Group>
    WARPBELL_D detail::member_read start_read(const Group& group, optional<extent> where,
                                              const volume_span& data, u64 timeout_ns);
    // Whether `start` would submit it, where there is room: so that nothing is done for a read that is not.
    WARPBELL_D bool may_start(extent where);
    // Nothing is submitted where it would take several commands, where there is no room now, or where it
    // would take a lane's last id on that member, which I/Os that are waited for need. Replicated: from one
    // of the replicas; if that fails, no other is tried.
    template <class Group>
    WARPBELL_D detail::member_read start(const Group& group, optional<extent> where, const volume_span& data);
    // The status, if it has completed; or if it was started `age_ns` ago, which is more than a command gets:
    // then it is given up.
    template <class Group>
    WARPBELL_D optional<status> try_finish(const Group& group, detail::member_read& read, u64 age_ns);
    template <class Group>
    WARPBELL_D status finish(const Group& group, detail::member_read&& read, u64 timeout_ns);

    // Adds to the counts, and saves exclusive queues for the next kernel. Last call.
    template <class Group> WARPBELL_D void detach(const Group& group);

  private:
    WARPBELL_D static bool fits(const warpbell_volume_ref& ref) {
        return ref.abi_version == WARPBELL_ABI_VERSION && ref.size == sizeof(ref) &&
               ref.member_count <= Members;
    }
    WARPBELL_D bool lacks_a_slot();
    WARPBELL_D warpbell_volume_state* state() const {
        return reinterpret_cast<warpbell_volume_state*>(ref_.state);
    }
    WARPBELL_D warpbell_volume_counts* counts(u32 member) const {
        return reinterpret_cast<warpbell_volume_counts*>(ref_.counts) + member;
    }
    WARPBELL_D bool replicated() const { return ref_.layout == WARPBELL_VOLUME_REPLICATE; }
    WARPBELL_D u32 all() const { return ~0u >> (32u - ref_.member_count); }
    WARPBELL_D status check(opcode op, extent where, const volume_span& data, u32 flags) const;
    WARPBELL_D u32 readable(u32 tried) const;
    WARPBELL_D u32 members_for(opcode op, const detail::volume_part& part, u32 tried) const;
    WARPBELL_D u32 member_for_start(extent where, detail::volume_part& part);
    WARPBELL_D status member_for_read(extent where, const volume_span& data, detail::volume_part& part,
                                      u32& mask) const;
    WARPBELL_D bool drop(u32 failed) const;
    WARPBELL_D void note_read(const detail::member_read& read, status said);
    WARPBELL_D status settle(opcode op, u32 mask, u32 done, u32 rejected, status answer) const;
    template <class Group, class Start>
    WARPBELL_D u32 run_on(const Group& group, opcode op, u32 mask, Start start, u64 timeout_ns,
                          status& answer, u32& rejected);
    template <class Group>
    WARPBELL_D status move_part(const Group& group, opcode op, u32 flags, const detail::volume_part& part,
                                const volume_span& data, u64 timeout_ns);

    const warpbell_volume_ref& ref_;
    u32 warp_;
    detail::member_sessions<Mode, Members, Map, Retry> sessions_;
    bool usable_; // alike in all lanes
};

// ---- the calls

template <class Group, sharing Mode, u32 N, class Map, class Retry>
WARPBELL_D status run(const Group& who, volume<Mode, N, Map, Retry>& v, const volume_command& what,
                      u64 timeout_ns = 0) {
    const auto group = group_of(who);
    const auto flush = [&] { return v.flush(group, timeout_ns); };
    return detail::run_either(what, flush, [&] {
        return v.run(group, what.op, what.where, what.data, true, timeout_ns, what.flags);
    });
}
template <class Group, sharing Mode, u32 N, class Map, class Retry>
WARPBELL_D status run_each(const Group& group, volume<Mode, N, Map, Retry>& v, const volume_command& mine,
                           u64 timeout_ns = 0) {
    return v.run(group_of(group), mine.op, mine.where, mine.data, false, timeout_ns, mine.flags);
}
template <class Group, sharing Mode, u32 N, class Map, class Retry>
WARPBELL_D status read(const Group& group, volume<Mode, N, Map, Retry>& v, extent from, const volume_span& to,
                       u64 timeout_ns = 0) {
    return v.run(group_of(group), opcode::read, from, to, true, timeout_ns);
}
template <class Group, sharing Mode, u32 N, class Map, class Retry>
WARPBELL_D status write(const Group& group, volume<Mode, N, Map, Retry>& v, extent to,
                        const volume_span& from, u64 timeout_ns = 0) {
    return v.run(group_of(group), opcode::write, to, from, true, timeout_ns);
}
// Lanes with nothing to do pass nullopt and get success.
template <class Group, sharing Mode, u32 N, class Map, class Retry>
WARPBELL_D status read_each(const Group& group, volume<Mode, N, Map, Retry>& v, optional<extent> from,
                            const volume_span& to, u64 timeout_ns = 0) {
    return v.run(group_of(group), opcode::read, from, to, false, timeout_ns);
}
template <class Group, sharing Mode, u32 N, class Map, class Retry>
WARPBELL_D status write_each(const Group& group, volume<Mode, N, Map, Retry>& v, optional<extent> to,
                             const volume_span& from, u64 timeout_ns = 0) {
    return v.run(group_of(group), opcode::write, to, from, false, timeout_ns);
}

// A read that is on its way, as io_token is one of a session: move-only, answered once.
using volume_token = detail::member_read;

// Starts a read of each lane, of one command on one SSD; lanes with nothing to do pass nullopt. The token is
// refused with too_large where the extent crosses a chunk, or is more than one command moves there; and as
// io.cuh has it. Replicated: if the replica fails, no other is tried; read_each does.
template <class Group, sharing Mode, u32 N, class Map, class Retry>
WARPBELL_D volume_token submit_read_each(const Group& group, volume<Mode, N, Map, Retry>& v,
                                         optional<extent> from, const volume_span& to, u64 timeout_ns = 0) {
    return v.start_read(group_of(group), from, to, timeout_ns);
}
// Waits for each lane's own. Lanes with an empty token take part and get success.
template <class Group, sharing Mode, u32 N, class Map, class Retry>
WARPBELL_D status wait_each(const Group& who, volume<Mode, N, Map, Retry>& v, volume_token&& token,
                            u64 timeout_ns = 0) {
    const auto group = group_of(who);
    const status refusal = token.refusal();
    const status said = v.finish(group, warpbell::move(token), timeout_ns);
    return refusal.ok() ? said : refusal;
}
// Each lane's own, if it has completed, or was refused.
template <class Group, sharing Mode, u32 N, class Map, class Retry>
WARPBELL_D optional<status> try_wait(const Group& who, volume<Mode, N, Map, Retry>& v, volume_token& token) {
    const auto group = group_of(who);
    const status refusal = token.refusal();
    const optional<status> said = v.try_finish(group, token, 0);
    return refusal.ok() ? said : optional<status>(refusal);
}

// Makes what was written before durable, on each SSD.
template <class Group, sharing Mode, u32 N, class Map, class Retry>
WARPBELL_D status flush(const Group& group, volume<Mode, N, Map, Retry>& v, u64 timeout_ns = 0) {
    return v.flush(group_of(group), timeout_ns);
}

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell

#include "impl/volume.cuh"
