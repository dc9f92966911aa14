// What kernels that try the calls of the device library share: a warp's own blocks and data, and what it
// found.
#pragma once

#include "common.cuh"

#include "../abi_check.h"

namespace kernels {
inline namespace WARPBELL_NAMESPACE {

// What a lane found. Each answer and each look at data has a number of its own in its kernel: the step.
class findings {
  public:
    WARPBELL_D bool good() const { return failed_ == 0 && wrong_ == 0; }
    // The answer was one of those that are right.
    WARPBELL_D void judge(u32 step, status said, bool right) {
        note(step, said, right);
        ++(right ? done_ : failed_);
    }
    // It should have been this one.
    WARPBELL_D void told(u32 step, status said, status expected = status()) {
        judge(step, said, said.bits == expected.bits);
    }
    // The data was as it should be.
    WARPBELL_D void saw(u32 step, bool right) {
        note(step, code::mismatch, right);
        wrong_ += right ? 0u : 1u;
    }

    // By the whole warp.
    WARPBELL_D void report(u64 results) const {
        const this_warp_t warp;
        const u32 bad = warp.ballot(!good()), from = bad != 0 ? port::lowest(bad) : 0;
        warpbell_check_result result = {};
        result.done = sum(warp, done_);
        result.failed = sum(warp, failed_);
        result.wrong = sum(warp, wrong_);
        result.step = static_cast<u32>(warp.from(from, static_cast<u64>(step_)));
        result.status = static_cast<u32>(warp.from(from, static_cast<u64>(status_.bits)));
        if (warp.is_leader()) {
            reinterpret_cast<warpbell_check_result*>(results)[warp_number()] = result;
        }
    }

  private:
    WARPBELL_D void note(u32 step, status said, bool right) {
        if (!right && good()) {
            step_ = step;
            status_ = said;
        }
    }

    u32 done_ = 0, failed_ = 0, wrong_ = 0, step_ = 0;
    status status_;
};

// The blocks of one warp. Block k of the buffer goes with block k of the namespace. What a block holds is
// told by a version.
class check_region {
  public:
    WARPBELL_D check_region(const warpbell_check_args& args, u32 number)
        : args_(args), first_(static_cast<u64>(number) * WARPBELL_CHECK_WARP_BLOCKS),
          words_((1u << args.ns.block_shift) / 8u) {}

    WARPBELL_D extent blocks(u32 block, u32 count = 1) const {
        return extent{lba(args_.first_lba + first_ + block), count};
    }
    WARPBELL_D dma_span data(u32 block, u32 count = 1) const {
        return dma_span(args_.buffer).subspan((first_ + block) * words_ * 8u, count * words_ * 8u);
    }
    // Of the buffer, by this lane: blocks `from`, `from` + `step`, .. below `end`.
    WARPBELL_D void fill(u32 from, u32 end, u32 step, u32 version) const {
        WARPBELL_NO_UNROLL
        for (u32 block = from; block < end; block += step) {
            WARPBELL_NO_UNROLL
            for (u32 i = 0; i < words_; ++i) {
                words_of(block)[i] = content(block, i, version);
            }
        }
    }
    WARPBELL_D bool holds(u32 from, u32 end, u32 step, u32 version) const {
        bool right = true;
        WARPBELL_NO_UNROLL
        for (u32 block = from; block < end; block += step) {
            WARPBELL_NO_UNROLL
            for (u32 i = 0; i < words_; ++i) {
                right = right && words_of(block)[i] == content(block, i, version);
            }
        }
        return right;
    }

    // Whether two blocks of the buffer hold the same.
    WARPBELL_D bool alike(u32 one, u32 other) const {
        bool right = true;
        WARPBELL_NO_UNROLL
        for (u32 i = 0; i < words_; ++i) {
            right = right && words_of(one)[i] == words_of(other)[i];
        }
        return right;
    }
    // What a group fills together, and sees together. Each lane looks at blocks that another one has filled.
    template <class Group> WARPBELL_D void fill(const Group& group, u32 from, u32 end, u32 version) const {
        group.sync(); // everybody has looked at what was there
        fill(from + group.thread_rank(), end, group.size(), version);
        group.sync();
    }
    template <class Group> WARPBELL_D bool holds(const Group& group, u32 from, u32 end, u32 version) const {
        return holds(from + (group.thread_rank() + 1u) % group.size(), end, group.size(), version);
    }
    WARPBELL_D u64 content(u32 block, u32 word, u32 version) const {
        const u64 stream = (first_ + block) << 32 | version;
        return version == zeros ? 0 : random_number(args_.seed ^ stream * golden, word);
    }

  protected:
    static constexpr u32 zeros = 0; // as a version: nothing but zeros
    WARPBELL_D u64* words_of(u32 block) const { return data(block).template data<u64>(); }

    const warpbell_check_args& args_;

  private:
    const u64 first_;
    const u32 words_;
};

// A warp that makes calls and looks at what comes of them. `number`: whose blocks it has.
class checker : public check_region {
  public:
    using check_region::check_region;

  protected:
    WARPBELL_D const u32* stop_word() const { return reinterpret_cast<const u32*>(args_.stop); }
    WARPBELL_D bool stopped() const { return port::load_relaxed_sys(stop_word()) != 0; }
    WARPBELL_D bool goes_on(u32 round) const {
        return round < args_.rounds && warp_.ballot(stopped() || !found_.good()) == 0;
    }
    WARPBELL_D void finish() const { found_.report(args_.results); }

    const this_warp_t warp_ = {};
    findings found_;
};

// With a session, of the same number.
template <sharing Mode> class check_warp : public checker {
  public:
    WARPBELL_D check_warp(const warpbell_check_args& args, u32 number)
        : checker(args, number), s_(this_warp(), args.ns, number) {}

  protected:
    WARPBELL_D void finish() {
        s_.detach(warp_);
        checker::finish();
    }

    session<Mode> s_;
};

template <template <sharing> class Check> WARPBELL_D void run_check(const warpbell_check_args& args) {
    if (args.ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        Check<sharing::exclusive>(args).run();
    } else {
        Check<sharing::shared>(args).run();
    }
}

} // namespace WARPBELL_NAMESPACE
} // namespace kernels
