// Every function of the flat layer that takes a session or an array, called by those who may and by those
// who may not.
#pragma once

#include "flat_calls.cuh"

namespace kernels {

// What a lane hands to the functions.
class flat_functions {
  public:
    // As FUNCTIONS of rules.rs.
    static constexpr u32 count = 45, first_of_arrays = 34, last_of_arrays = 42;

    WARPBELL_D explicit flat_functions(const flat_args& args) : args_(args) {}

    // A read of one block of this lane's by function `which`, or whatever that does.
    WARPBELL_D u32 call(u32 which) {
        return which < 17u   ? moves(which)
               : which < 23u ? commands(which)
               : which < 34u ? ends(which)
                             : arrays(which);
    }

    WARPBELL_D warpbell_session* session() { return &s_; }
    WARPBELL_D warpbell_array* array() { return &a_; }
    WARPBELL_D u32 open() {
        return warpbell_array_open(&a_, &s_, &args_.cache, &args_.pages, 0, args_.elements, 4);
    }

  private:
    WARPBELL_D u64 block() const { return port::lane(); }
    WARPBELL_D u64 offset() const { return block() << args_.ns.block_shift; }

    WARPBELL_D u32 moves(u32 which) {
        const warpbell_buffer_ref* const data = &args_.buffer;
        u64 token = 0;
        switch (which) {
        case 0:
            return warpbell_read(&s_, block(), 1, data, offset(), 0);
        case 1:
            return warpbell_read_warp(&s_, 0, 1, data, 0, 0);
        case 2:
            return warpbell_read_each(&s_, block(), 1, data, offset(), 0);
        case 3:
            return warpbell_write(&s_, block(), 1, data, offset(), 0);
        case 4:
            return warpbell_write_warp(&s_, 0, 1, data, 0, 0);
        case 5:
            return warpbell_write_each(&s_, block(), 1, data, offset(), 0);
        case 6:
            return warpbell_flush(&s_, 0);
        case 7:
            return warpbell_flush_warp(&s_, 0);
        case 8:
            return waited(warpbell_read_async(&s_, &token, block(), 1, data, offset(), 0), token);
        case 9:
            return waited_warp(warpbell_read_async_warp(&s_, &token, 0, 1, data, 0, 0), token);
        case 10:
            return waited_each(warpbell_read_async_each(&s_, &token, block(), 1, data, offset(), 0), token);
        case 11:
            return waited(warpbell_write_async(&s_, &token, block(), 1, data, offset(), 0), token);
        case 12:
            return waited_warp(warpbell_write_async_warp(&s_, &token, 0, 1, data, 0, 0), token);
        case 13:
            return waited_each(warpbell_write_async_each(&s_, &token, block(), 1, data, offset(), 0), token);
        case 14:
            return waited(warpbell_flush_async(&s_, &token, 0), token);
        case 15:
            return waited_warp(warpbell_flush_async_warp(&s_, &token, 0), token);
        default:
            return warpbell_switch_to_successor(&s_, 0);
        }
    }
    // What was begun is not left in flight. Its status, and not that of the wait.
    WARPBELL_D u32 waited(u32 begun, u64& token) {
        return begun == 0 ? warpbell_wait(&s_, &token, 0) : begun;
    }
    WARPBELL_D u32 waited_warp(u32 begun, u64& token) {
        return begun == 0 ? warpbell_wait_warp(&s_, &token, 0) : begun;
    }
    WARPBELL_D u32 waited_each(u32 begun, u64& token) {
        return begun == 0 ? warpbell_wait_each(&s_, &token, 0) : begun;
    }

    WARPBELL_D u32 commands(u32 which) {
        const warpbell_command own = {WARPBELL_OPCODE_READ, 0, block(), &args_.buffer, offset(), 1, 0};
        const warpbell_command first = {WARPBELL_OPCODE_READ, 0, 0, &args_.buffer, 0, 1, 0};
        u64 token = 0;
        switch (which) {
        case 17:
            return warpbell_execute(&s_, &own, 0);
        case 18:
            return warpbell_execute_warp(&s_, &first, 0);
        case 19:
            return warpbell_execute_each(&s_, &own, 0);
        case 20:
            return waited(warpbell_submit(&s_, &token, &own, 0), token);
        case 21:
            return waited_warp(warpbell_submit_warp(&s_, &token, &first, 0), token);
        default:
            return waited_each(warpbell_submit_each(&s_, &token, &own, 0), token);
        }
    }

    WARPBELL_D u32 ends(u32 which) {
        u64 token = io_token().bits(); // answered already
        u32 index = 0;
        switch (which) {
        case 23:
            return warpbell_wait(&s_, &token, 0);
        case 24:
            return warpbell_wait_warp(&s_, &token, 0);
        case 25:
            return warpbell_wait_each(&s_, &token, 0);
        case 26:
            return warpbell_try_wait(&s_, &token);
        case 27:
            return warpbell_try_wait_warp(&s_, &token);
        case 28:
            return warpbell_try_wait_each(&s_, &token);
        case 29:
            return warpbell_cancel(&s_, &token);
        case 30:
            return warpbell_cancel_warp(&s_, &token);
        case 31:
            return warpbell_cancel_each(&s_, &token);
        case 32:
            return warpbell_wait_any(&s_, &token, 1, &index, 0);
        default:
            return warpbell_wait_any_each(&s_, &token, 1, &index, 0);
        }
    }

    WARPBELL_D u32 arrays(u32 which) {
        u64 value = 0;
        switch (which) {
        case 34:
            return warpbell_array_get(&a_, 1, &value, 0);
        case 35:
            return warpbell_array_get_each(&a_, 1, &value, 0);
        case 36:
            return warpbell_array_put(&a_, 1, &value, 0);
        case 37:
            return warpbell_array_put_each(&a_, 1, &value, 0);
        case 38:
            return warpbell_array_atomic_add(&a_, 1, 1, 0);
        case 39:
            return warpbell_array_atomic_add_each(&a_, 1, 1, 0);
        case 40:
            return warpbell_array_flush(&a_, 0);
        case 41:
            return warpbell_array_flush_warp(&a_, 0);
        case 42:
            return warpbell_array_close(&a_);
        case 43:
            return open();
        default:
            return warpbell_detach(&s_);
        }
    }

    const flat_args& args_;
    warpbell_session s_ = WARPBELL_SESSION_INIT;
    warpbell_array a_ = WARPBELL_ARRAY_INIT;
};

// Calls by those who may not make them.
class misuse {
  public:
    WARPBELL_D explicit misuse(const flat_args& args) : args_(args), all_(args) {}

    WARPBELL_D void run() {
        each_function(); // zeroes
        not_attachable();
        one_by_one();
        by_the_warp();
        not_openable();
    }

  private:
    WARPBELL_D void said(u32 status) {
        flat_note& note = reinterpret_cast<flat_note*>(args_.notes)[port::lane()];
        note.said[note.calls++] = status;
        this_warp().sync();
    }
    WARPBELL_D void each_function() {
        for (u32 which = 0; which < flat_functions::count; ++which) {
            said(all_.call(which));
        }
    }
    WARPBELL_D void each_of_arrays() {
        for (u32 which = flat_functions::first_of_arrays; which <= flat_functions::last_of_arrays; ++which) {
            said(all_.call(which));
        }
    }

    // Refused, whatever was in the memory before: a session that was left without a detach, for example.
    WARPBELL_D void not_attachable() {
        warpbell_namespace_ref other = args_.ns;
        other.abi_version = WARPBELL_ABI_VERSION + 1u;
        said(warpbell_attach_warp(all_.session(), &args_.ns, 0));
        said(all_.open());
        const warpbell_session left = *all_.session();
        said(all_.call(flat_functions::last_of_arrays));
        said(warpbell_detach(all_.session()));
        said(attach_over(left, &other, 0));
        said(attach_over(left, &args_.ns, args_.ns.warps));
        said(attach_over(left, nullptr, 0));
        each_function();
    }
    WARPBELL_D u32 attach_over(const warpbell_session& left, const warpbell_namespace_ref* ns, u32 warp) {
        *all_.session() = left;
        return warpbell_attach_warp(all_.session(), ns, warp);
    }
    WARPBELL_D void one_by_one() {
        said(warpbell_attach(all_.session(), &args_.ns, 0));
        said(all_.open());
        each_function();
    }
    // And once more of a session that was detached, and its array.
    WARPBELL_D void by_the_warp() {
        said(warpbell_attach_warp(all_.session(), &args_.ns, 0));
        said(all_.open());
        each_function();
        each_function();
    }
    WARPBELL_D void not_openable() {
        warpbell_array* const a = all_.array();
        said(warpbell_attach_warp(all_.session(), &args_.ns, 0));
        said(all_.open());
        said(warpbell_array_open(a, all_.session(), &args_.cache, &args_.pages, 0, 1, 3));
        each_of_arrays();
        said(all_.open());
        said(warpbell_array_open(a, all_.session(), nullptr, &args_.pages, 0, 1, 4));
        each_of_arrays();
        said(all_.open());
        said(warpbell_array_close(a));
        each_of_arrays();
        said(all_.open());
        said(warpbell_detach(all_.session()));
        each_of_arrays();
    }

    const flat_args& args_;
    flat_functions all_;
};

} // namespace kernels
