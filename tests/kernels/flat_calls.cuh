// The calls that flat.cu makes, by the C++ API and by the flat layer. One has the members that the other has.
#pragma once

#include <warpbell/flat.cuh>
#include <warpbell/warpbell.cuh>

#define FLAT_NOTES 320

struct flat_args {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref buffer; // four blocks for each lane
    warpbell_cache_ref cache;
    warpbell_buffer_ref pages;
    uint64_t notes;                // flat_note[32], zeroed
    uint64_t first_byte, elements; // of the array
    uint32_t scene;
    uint32_t by_thread;
    uint32_t flat;
    uint32_t element_bytes;
    uint64_t timeout_ns;  // of each call; 0: the queue's, and the cache's
    uint64_t patience_ns; // for a successor, and of whoever polls
};

struct flat_note {
    uint32_t calls;
    uint32_t pad0;
    uint32_t said[FLAT_NOTES];
    uint64_t saw[FLAT_NOTES];
    uint64_t took_ns[FLAT_NOTES];
};

namespace kernels {
using namespace warpbell;

// Blocks and their data, as the flat layer names them.
struct blocks_of {
    u64 block;
    u32 blocks;
    const warpbell_buffer_ref* buffer;
    u64 offset;
};

// An element of 16 bytes, made of a number and its complement.
struct wide {
    u64 low, high;
    wide() = default;
    WARPBELL_D wide(u64 number) : low(number), high(~number) {}
    WARPBELL_D explicit operator u64() const { return high == ~low ? low : 0xbadbadbad; }
};

template <class Group> inline constexpr bool is_warp = false;
template <> inline constexpr bool is_warp<this_warp_t> = true;

// The C++ API, for a group that attaches and calls.
template <class Group, sharing Mode> class cpp_calls {
  public:
    WARPBELL_D explicit cpp_calls(const flat_args& args) : args_(args), group_(), s_(group_, args.ns, 0) {}

    WARPBELL_D u32 attached() { return s_.queue().refusal().bits; }
    WARPBELL_D u32 detach() {
        s_.detach(group_);
        return 0;
    }
    WARPBELL_D u32 move(bool writes, const blocks_of& of) {
        return (writes ? write(group_, s_, where(of), data(of), timeout())
                       : read(group_, s_, where(of), data(of), timeout()))
            .bits;
    }
    WARPBELL_D u32 move_each(bool writes, const blocks_of& of) {
        return (writes ? write_each(group_, s_, if_any(of), data(of), timeout())
                       : read_each(group_, s_, if_any(of), data(of), timeout()))
            .bits;
    }
    WARPBELL_D u32 begin(bool writes, const blocks_of& of, u64& token) {
        return of_all(kept(
            token, writes ? warpbell::submit(group_, s_, command::write(where(of), data(of)), timeout())
                          : warpbell::submit(group_, s_, command::read(where(of), data(of)), timeout())));
    }
    WARPBELL_D u32 begin_each(bool writes, const blocks_of& of, u64& token) {
        return kept(token,
                    writes
                        ? warpbell::submit_each(group_, s_, command::write(if_any(of), data(of)), timeout())
                        : warpbell::submit_each(group_, s_, command::read(if_any(of), data(of)), timeout()));
    }
    WARPBELL_D u32 execute(const warpbell_command& of) {
        return run(group_, s_, what(of, of.blocks), timeout()).bits;
    }
    WARPBELL_D u32 execute_each(const warpbell_command& of) {
        return run_each(group_, s_, what_if_any(of), timeout()).bits;
    }
    WARPBELL_D u32 submit(const warpbell_command& of, u64& token) {
        return of_all(kept(token, warpbell::submit(group_, s_, what(of, of.blocks), timeout())));
    }
    WARPBELL_D u32 submit_each(const warpbell_command& of, u64& token) {
        return kept(token, warpbell::submit_each(group_, s_, what_if_any(of), timeout()));
    }
    // Of so many tokens, three at most.
    WARPBELL_D u32 any(u64 (&tokens)[3], u32 count, u32& index) {
        io_token own[3];
        for (u32 k = 0; k < count; ++k) {
            own[k] = taken(tokens[k]);
        }
        const any_status first = wait_any(group_, s_, own, timeout());
        for (u32 k = 0; k < count; ++k) {
            tokens[k] = own[k].bits();
        }
        index = first.index;
        return first.result.bits;
    }
    WARPBELL_D u32 flush() { return warpbell::flush(group_, s_, timeout()).bits; }
    WARPBELL_D u32 begin_flush(u64& token) {
        return of_all(kept(token, warpbell::submit(group_, s_, command::flush(), timeout())));
    }
    WARPBELL_D u32 wait(u64& token) { return warpbell::wait(group_, s_, taken(token), timeout()).bits; }
    WARPBELL_D u32 wait_each(u64& token) {
        return warpbell::wait_each(group_, s_, taken(token), timeout()).bits;
    }
    // As a kernel would write it: whoever has no answer yet looks again, until all of the group have theirs.
    WARPBELL_D u32 poll(u64& token) {
        const u32 mine = poll_each(token);
        return detail::agree_on_data(group_, status::from_bits(mine)).bits;
    }
    WARPBELL_D u32 poll_each(u64& token) {
        io_token own = taken(token);
        optional<status> said;
        while (group_.ballot(!said) != 0) {
            const optional<status> now = warpbell::try_wait(group_, s_, own);
            said = said ? said : now;
            port::pause();
        }
        return said->bits;
    }
    // Once. Of one I/O nothing has come before all of it has.
    WARPBELL_D u32 look(u64& token) {
        const u32 mine = look_each(token);
        return group_.ballot(mine == WARPBELL_PENDING) != 0 ? WARPBELL_PENDING : of_all(mine);
    }
    WARPBELL_D u32 look_each(u64& token) {
        io_token own = taken(token);
        const optional<status> said = warpbell::try_wait(group_, s_, own);
        token = said ? io_token().bits() : own.bits();
        return said ? said->bits : WARPBELL_PENDING;
    }
    WARPBELL_D u32 cancel(u64& token) { return warpbell::cancel(group_, s_, taken(token)).bits; }
    WARPBELL_D u32 cancel_each(u64& token) { return warpbell::cancel_each(group_, s_, taken(token)).bits; }
    WARPBELL_D u32 successor(u64 timeout_ns) { return s_.switch_to_successor(group_, timeout_ns).bits; }

    template <class T> class array {
        using cache_type = page_cache<session<Mode>>;

      public:
        WARPBELL_D explicit array(cpp_calls& calls)
            : group_(calls.group_), cache_(group_, calls.args_.cache, calls.s_, dma_span(calls.args_.pages)),
              view_(cache_, calls.args_.first_byte, calls.args_.elements), timeout_(calls.timeout()) {}
        WARPBELL_D u32 opened() { return 0; }
        WARPBELL_D u32 get(u64 index, T& value) {
            return view_.try_load(group_, index, value, timeout_).bits;
        }
        WARPBELL_D u32 put(u64 index, T value) { return view_.store(group_, index, value, timeout_).bits; }
        // The library does not compile it for elements of another size.
        WARPBELL_D u32 add(u64 index, u64 value) {
            if constexpr (sizeof(T) == 4u || sizeof(T) == 8u) {
                return view_.atomic_add(group_, some(index), static_cast<T>(value), timeout_).bits;
            } else {
                return status(code::invalid_field).bits;
            }
        }
        WARPBELL_D u32 get_each(u64 index, T& value) {
            return view_.try_load(group_, some(index), value, timeout_).bits;
        }
        WARPBELL_D u32 put_each(u64 index, T value) {
            return view_.store(group_, some(index), value, timeout_).bits;
        }
        WARPBELL_D u32 flush() { return cache_.flush(group_, timeout_).bits; }
        WARPBELL_D u32 close() {
            cache_.detach(group_);
            return 0;
        }

      private:
        WARPBELL_D static optional<u64> some(u64 index) {
            return index != WARPBELL_NO_INDEX ? optional<u64>(index) : optional<u64>();
        }
        const Group group_;
        cache_type cache_;
        array_view<T, cache_type> view_;
        const u64 timeout_;
    };

  private:
    WARPBELL_D u64 timeout() const { return args_.timeout_ns; }
    WARPBELL_D static extent where(const blocks_of& of) { return extent{lba(of.block), of.blocks}; }
    WARPBELL_D static optional<extent> if_any(const blocks_of& of) {
        return of.blocks != 0 ? optional<extent>(where(of)) : optional<extent>();
    }
    WARPBELL_D command what(const warpbell_command& of, u32 blocks) {
        const extent where = {lba(of.block), blocks};
        switch (of.opcode) {
        case WARPBELL_OPCODE_READ:
            return command::read(where, data({of.block, blocks, of.buffer, of.offset}), of.flags);
        case WARPBELL_OPCODE_WRITE:
            return command::write(where, data({of.block, blocks, of.buffer, of.offset}), of.flags);
        case WARPBELL_OPCODE_COMPARE:
            return command::compare(where, data({of.block, blocks, of.buffer, of.offset}), of.flags);
        case WARPBELL_OPCODE_WRITE_ZEROES:
            return command::write_zeroes(where, of.flags);
        case WARPBELL_OPCODE_FLUSH:
            return {opcode::flush, extent(), dma_span(), of.flags};
        default:
            return {opcode::dataset_management, where, dma_span(), 0};
        }
    }
    WARPBELL_D command what_if_any(const warpbell_command& of) {
        const bool is_none = of.blocks == 0 && of.opcode != WARPBELL_OPCODE_FLUSH;
        return is_none ? command() : what(of, of.blocks);
    }
    WARPBELL_D dma_span data(const blocks_of& of) {
        const u64 bytes = static_cast<u64>(of.blocks) * s_.block_bytes();
        return of.buffer != nullptr ? dma_span(*of.buffer).subspan(of.offset, bytes) : dma_span();
    }
    // One answer where the group has one I/O.
    WARPBELL_D u32 of_all(u32 mine) const { return detail::agree(group_, status::from_bits(mine)).bits; }
    WARPBELL_D static u32 kept(u64& token, const io_token& made) {
        token = made.bits();
        return made.in_flight() ? 0 : made.refusal().bits;
    }
    WARPBELL_D static io_token taken(u64& token) {
        io_token own = io_token::from_bits(token);
        token = io_token().bits();
        return own;
    }

    const flat_args& args_;
    const Group group_;
    session<Mode> s_;
};

// The same by the flat layer.
template <class Group> class flat_calls {
  public:
    WARPBELL_D explicit flat_calls(const flat_args& args) : args_(args) {
        attached_ =
            is_warp<Group> ? warpbell_attach_warp(&s_, &args.ns, 0) : warpbell_attach(&s_, &args.ns, 0);
    }

    WARPBELL_D u32 attached() { return attached_; }
    WARPBELL_D u32 detach() { return warpbell_detach(&s_); }
    WARPBELL_D u32 move(bool writes, const blocks_of& of) {
        const auto call = is_warp<Group> ? (writes ? warpbell_write_warp : warpbell_read_warp)
                                         : (writes ? warpbell_write : warpbell_read);
        return call(&s_, of.block, of.blocks, of.buffer, of.offset, timeout());
    }
    WARPBELL_D u32 move_each(bool writes, const blocks_of& of) {
        return (writes ? warpbell_write_each : warpbell_read_each)(&s_, of.block, of.blocks, of.buffer,
                                                                   of.offset, timeout());
    }
    WARPBELL_D u32 begin(bool writes, const blocks_of& of, u64& token) {
        const auto call = is_warp<Group> ? (writes ? warpbell_write_async_warp : warpbell_read_async_warp)
                                         : (writes ? warpbell_write_async : warpbell_read_async);
        return call(&s_, &token, of.block, of.blocks, of.buffer, of.offset, timeout());
    }
    WARPBELL_D u32 begin_each(bool writes, const blocks_of& of, u64& token) {
        return (writes ? warpbell_write_async_each : warpbell_read_async_each)(
            &s_, &token, of.block, of.blocks, of.buffer, of.offset, timeout());
    }
    WARPBELL_D u32 execute(const warpbell_command& of) {
        return (is_warp<Group> ? warpbell_execute_warp : warpbell_execute)(&s_, &of, timeout());
    }
    WARPBELL_D u32 execute_each(const warpbell_command& of) {
        return warpbell_execute_each(&s_, &of, timeout());
    }
    WARPBELL_D u32 submit(const warpbell_command& of, u64& token) {
        return (is_warp<Group> ? warpbell_submit_warp : warpbell_submit)(&s_, &token, &of, timeout());
    }
    WARPBELL_D u32 submit_each(const warpbell_command& of, u64& token) {
        return warpbell_submit_each(&s_, &token, &of, timeout());
    }
    WARPBELL_D u32 any(u64 (&tokens)[3], u32 count, u32& index) {
        return (is_warp<Group> ? warpbell_wait_any_each : warpbell_wait_any)(&s_, tokens, count, &index,
                                                                             timeout());
    }
    WARPBELL_D u32 flush() { return (is_warp<Group> ? warpbell_flush_warp : warpbell_flush)(&s_, timeout()); }
    WARPBELL_D u32 begin_flush(u64& token) {
        return (is_warp<Group> ? warpbell_flush_async_warp : warpbell_flush_async)(&s_, &token, timeout());
    }
    WARPBELL_D u32 wait(u64& token) {
        return (is_warp<Group> ? warpbell_wait_warp : warpbell_wait)(&s_, &token, timeout());
    }
    WARPBELL_D u32 wait_each(u64& token) { return warpbell_wait_each(&s_, &token, timeout()); }
    WARPBELL_D u32 poll(u64& token) {
        u32 said = WARPBELL_PENDING;
        while (said == WARPBELL_PENDING) {
            said = (is_warp<Group> ? warpbell_try_wait_warp : warpbell_try_wait)(&s_, &token);
            port::pause();
        }
        return said;
    }
    WARPBELL_D u32 poll_each(u64& token) {
        u32 said = WARPBELL_PENDING;
        while (this_warp().ballot(said == WARPBELL_PENDING) != 0) {
            const u32 now = warpbell_try_wait_each(&s_, &token);
            said = said == WARPBELL_PENDING ? now : said;
            port::pause();
        }
        return said;
    }
    WARPBELL_D u32 look(u64& token) {
        return (is_warp<Group> ? warpbell_try_wait_warp : warpbell_try_wait)(&s_, &token);
    }
    WARPBELL_D u32 look_each(u64& token) { return warpbell_try_wait_each(&s_, &token); }
    WARPBELL_D u32 cancel(u64& token) {
        return (is_warp<Group> ? warpbell_cancel_warp : warpbell_cancel)(&s_, &token);
    }
    WARPBELL_D u32 cancel_each(u64& token) { return warpbell_cancel_each(&s_, &token); }
    WARPBELL_D u32 successor(u64 timeout_ns) { return warpbell_switch_to_successor(&s_, timeout_ns); }

    template <class T> class array {
      public:
        WARPBELL_D explicit array(flat_calls& calls) : timeout_(calls.timeout()) {
            const flat_args& args = calls.args_;
            opened_ = warpbell_array_open(&a_, &calls.s_, &args.cache, &args.pages, args.first_byte,
                                          args.elements, sizeof(T));
        }
        WARPBELL_D u32 opened() { return opened_; }
        WARPBELL_D u32 get(u64 index, T& value) {
            return (is_warp<Group> ? warpbell_array_get_each : warpbell_array_get)(&a_, index, &value,
                                                                                   timeout_);
        }
        WARPBELL_D u32 put(u64 index, T value) {
            return (is_warp<Group> ? warpbell_array_put_each : warpbell_array_put)(&a_, index, &value,
                                                                                   timeout_);
        }
        WARPBELL_D u32 add(u64 index, u64 value) {
            return (is_warp<Group> ? warpbell_array_atomic_add_each
                                   : warpbell_array_atomic_add)(&a_, index, value, timeout_);
        }
        WARPBELL_D u32 get_each(u64 index, T& value) {
            return warpbell_array_get_each(&a_, index, &value, timeout_);
        }
        WARPBELL_D u32 put_each(u64 index, T value) {
            return warpbell_array_put_each(&a_, index, &value, timeout_);
        }
        WARPBELL_D u32 flush() {
            return (is_warp<Group> ? warpbell_array_flush_warp : warpbell_array_flush)(&a_, timeout_);
        }
        WARPBELL_D u32 close() { return warpbell_array_close(&a_); }

      private:
        const u64 timeout_;
        warpbell_array a_;
        u32 opened_;
    };

  private:
    WARPBELL_D u64 timeout() const { return args_.timeout_ns; }

    const flat_args& args_;
    warpbell_session s_;
    u32 attached_;
};

} // namespace kernels
