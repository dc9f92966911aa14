// Kernel `flat_test`: scenes in which every call of the flat layer is made, or, with `flat` 0, the call of
// the C++ API that it stands for. A lane notes each status, and the first word of its data behind each call
// that may have brought some. What the two note must be the same.
#include "flat_calls.cuh"

namespace kernels {

enum class scene : u32 { io, refused, dead, lost, array, misuse };

// What is done, by either.
template <class Calls, class Group> class player {
  public:
    WARPBELL_D explicit player(const flat_args& args)
        : args_(args), calls_(args), lane_(port::lane()), block_bytes_(1u << args.ns.block_shift) {}

    WARPBELL_D void run() {
        said(calls_.attached());
        switch (static_cast<scene>(args_.scene)) {
        case scene::io:
            io();
            break;
        case scene::refused:
            refused();
            break;
        case scene::dead:
            dead();
            break;
        case scene::lost:
            lost();
            break;
        default:
            args_.element_bytes == 8u ? arrays<u64>() : arrays<u32>();
            break;
        }
        said(calls_.detach());
    }

  private:
    static constexpr bool warp_wide = is_warp<Group>;

    WARPBELL_D flat_note& note() const { return reinterpret_cast<flat_note*>(args_.notes)[lane_]; }
    WARPBELL_D void said(u32 status) { note().said[note().calls++] = status; }
    WARPBELL_D void saw(u64 value) { note().saw[note().calls - 1u] = value; }
    // Two blocks of this lane's; those of all lanes lie side by side where they are one I/O.
    WARPBELL_D u64 first() const { return warp_wide ? 2u * lane_ : 4u * lane_; }
    WARPBELL_D blocks_of blocks(u64 block, u32 count) const {
        return blocks_of{block, count, &args_.buffer, block * block_bytes_};
    }
    WARPBELL_D blocks_of mine() const { return blocks(first(), 2); }
    WARPBELL_D blocks_of whole() const { return warp_wide ? blocks(0, 64) : mine(); }
    WARPBELL_D u64* word(u32 k) const {
        return reinterpret_cast<u64*>(args_.buffer.data + (first() + k) * block_bytes_);
    }
    WARPBELL_D void fill(u64 seed) {
        for (u32 k = 0; k < 2u; ++k) {
            *word(k) = seed == 0 ? 0 : seed << 32 ^ (first() + k);
        }
        Group().sync();
    }
    WARPBELL_D void look() { saw(*word(0) ^ *word(1) << 8); }
    WARPBELL_D void io() {
        u64 token = 0;
        fill(1);
        said(calls_.move(true, whole()));
        fill(0);
        said(calls_.move(false, whole()));
        look();
        said(calls_.flush());
        fill(2);
        said(calls_.begin(true, whole(), token));
        said(calls_.wait(token));
        fill(0);
        said(calls_.begin(false, whole(), token));
        said(calls_.poll(token));
        look();
        said(calls_.begin_flush(token));
        said(calls_.wait(token));
        fill(0);
        said(calls_.begin(false, whole(), token));
        said(calls_.flush()); // whoever waits for it collects what came before
        said(calls_.cancel(token));
        look();
        if constexpr (warp_wide) {
            io_each();
        }
    }

    WARPBELL_D void io_each() {
        u64 token = 0;
        fill(3);
        said(calls_.move_each(true, mine()));
        fill(0);
        said(calls_.move_each(false, mine()));
        look();
        fill(4);
        said(calls_.begin_each(true, mine(), token));
        said(calls_.wait_each(token));
        fill(0);
        said(calls_.begin_each(false, mine(), token));
        said(calls_.poll_each(token));
        look();
        // Half of the lanes have nothing to do.
        fill(0);
        said(calls_.move_each(false, blocks(first(), lane_ < 16u ? 2 : 0)));
        look();
        said(calls_.begin_each(false, blocks(first(), lane_ < 16u ? 2 : 0), token));
        said(calls_.flush());
        said(calls_.cancel_each(token));
        look();
    }

    // What must be refused; 6: what is too large for a call that does not wait; 7: nothing is wrong.
    WARPBELL_D blocks_of wrong(u32 what) const {
        const u32 most = args_.ns.max_blocks;
        switch (what) {
        case 0:
            return blocks_of{args_.ns.blocks, 1, &args_.buffer, 0};
        case 1:
            return blocks_of{0, 1, &args_.buffer, args_.buffer.bytes};
        case 2:
            return blocks_of{0, 1, &args_.buffer, 2};
        case 3:
            return blocks_of{0, 0, &args_.buffer, 0};
        case 4:
            return blocks_of{0, 1, nullptr, 0};
        case 5:
            return blocks_of{~0ull, 2, &args_.buffer, 0};
        case 6:
            return blocks(0, warp_wide ? 32u * most + 1u : most + 1u);
        default:
            return blocks(0, 1);
        }
    }
    WARPBELL_D void refused() {
        u64 token = 0;
        for (u32 what = 0; what < 8u; ++what) {
            said(calls_.move(false, wrong(what)));
            said(calls_.move(true, wrong(what)));
            said(calls_.begin(false, wrong(what), token));
            said(calls_.wait(token));
        }
        if constexpr (warp_wide) {
            blocks_of own = wrong(lane_ & 7u);
            own.blocks = (lane_ & 7u) == 6u ? args_.ns.max_blocks + 1u : own.blocks;
            said(calls_.move_each(false, own));
            said(calls_.begin_each(false, own, token));
            said(calls_.wait_each(token));
        }
    }

    // The controller does nothing.
    WARPBELL_D void dead() {
        u64 tokens[5] = {};
        said(calls_.move(false, whole()));
        for (u64& token : tokens) {
            said(calls_.begin(false, whole(), token));
        }
        said(calls_.cancel(tokens[0]));
        said(calls_.wait(tokens[1]));
        said(calls_.wait(tokens[4]));
        said(calls_.flush());
    }

    // The host has given the queue up, before the kernel began.
    WARPBELL_D void lost() {
        u64 token = 0;
        fill(0);
        said(calls_.move(false, whole()));
        said(calls_.begin(false, whole(), token));
        said(calls_.wait(token));
        said(calls_.flush());
        said(calls_.successor(args_.patience_ns));
        said(calls_.move(false, whole()));
        look();
    }

    template <class T> WARPBELL_D void arrays() {
        typename Calls::template array<T> array(calls_);
        said(array.opened());
        const u64 own =
            lane_ * 9u; // of 8 bytes, lane 7's lies across two pages where the array begins at byte 4
        T value = 0;
        said(array.put(own, static_cast<T>(~own)));
        said(array.get(own, value));
        saw(value);
        said(array.get(own + 1u, value));
        saw(value);
        said(array.get(args_.elements, value));
        saw(value);
        if constexpr (warp_wide) {
            const u64 index = lane_ % 3u == 0 ? WARPBELL_NO_INDEX : own + 2u;
            said(array.put_each(index, static_cast<T>(own * 7u)));
            said(array.get_each(index, value));
            saw(value);
        }
        said(array.flush());
        said(array.close());
    }

    const flat_args& args_;
    Calls calls_;
    const u32 lane_;
    const u64 block_bytes_;
};

// Calls by those who may not make them.
class misuse {
  public:
    WARPBELL_D explicit misuse(const flat_args& args) : args_(args), s_(), a_() {}

    WARPBELL_D void run() {
        never_attached();
        not_attachable();
        one_by_one();
        by_the_warp();
    }

  private:
    WARPBELL_D void said(u32 status) {
        flat_note& note = reinterpret_cast<flat_note*>(args_.notes)[port::lane()];
        note.said[note.calls++] = status;
        this_warp().sync();
    }
    WARPBELL_D void reads() {
        said(warpbell_read(&s_, port::lane(), 1, &args_.buffer, port::lane() << args_.ns.block_shift, 0));
    }
    WARPBELL_D void warp_reads() { said(warpbell_read_warp(&s_, 0, 1, &args_.buffer, 0, 0)); }

    WARPBELL_D void never_attached() {
        u64 value = 0;
        reads();
        warp_reads();
        said(warpbell_detach(&s_));
        said(warpbell_array_get(&a_, 0, &value, 0));
        said(warpbell_array_close(&a_));
    }
    WARPBELL_D void not_attachable() {
        warpbell_namespace_ref other = args_.ns;
        other.abi_version = WARPBELL_ABI_VERSION + 1u;
        said(warpbell_attach_warp(&s_, &other, 0));
        said(warpbell_attach_warp(&s_, &args_.ns, args_.ns.warps));
        said(warpbell_attach_warp(&s_, nullptr, 0));
        reads();
    }
    WARPBELL_D void one_by_one() {
        said(warpbell_attach(&s_, &args_.ns, 0));
        warp_reads();
        reads();
        said(warpbell_detach(&s_));
    }
    WARPBELL_D void by_the_warp() {
        u32 value = 0;
        said(warpbell_attach_warp(&s_, &args_.ns, 0));
        reads();
        warp_reads();
        said(warpbell_array_open(&a_, &s_, &args_.cache, &args_.pages, 0, 1, 3));
        said(warpbell_array_open(&a_, &s_, nullptr, &args_.pages, 0, 1, 4));
        said(warpbell_array_get_each(&a_, 0, &value, 0));
        said(warpbell_detach(&s_));
        said(warpbell_detach(&s_));
        warp_reads();
    }

    const flat_args& args_;
    warpbell_session s_;
    warpbell_array a_;
};

template <class Group, sharing Mode> WARPBELL_D void play(const flat_args& args) {
    if (args.flat != 0) {
        player<flat_calls<Group>, Group>(args).run();
    } else {
        player<cpp_calls<Group, Mode>, Group>(args).run();
    }
}

template <sharing Mode> WARPBELL_D void play_as(const flat_args& args) {
    if (args.scene == static_cast<u32>(scene::misuse)) {
        misuse(args).run();
    } else if (args.by_thread == 0) {
        play<this_warp_t, Mode>(args);
    } else if (Mode == sharing::shared || port::lane() == 0) {
        play<this_thread_t, Mode>(args);
    }
}

} // namespace kernels

WARPBELL_KERNEL(flat_test, flat_args) {
    using namespace kernels;
    if (args.ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        play_as<sharing::exclusive>(args);
    } else {
        play_as<sharing::shared>(args);
    }
}

WARPBELL_KERNEL(flat_status_test, flat_args) {
    using namespace warpbell;
    const uint32_t bits = port::thread_index() + port::block_index() * port::block_threads();
    const status said = status::from_bits(bits);
    const uint32_t same = warpbell_status_ok(bits) == said.ok() &&
                          warpbell_status_retryable(bits) == said.retryable() &&
                          warpbell_status_buffer_in_use(bits) == said.buffer_in_use();
    port::add_relaxed_gpu(reinterpret_cast<uint64_t*>(args.notes), uint64_t(same));
}
