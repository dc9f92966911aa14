// Kernel `gauge`: what a machine can do at best, for figures to be judged by. Lane 0 of each warp does one
// thing again and again; the other lanes take no part.
#include "abi_resident.h"
#include "common.cuh"

namespace kernels {

class gauge_lane {
  public:
    WARPBELL_D explicit gauge_lane(const warpbell_gauge_args& args) : args_(args) {}

    WARPBELL_D void run() {
        const u64 start_ns = port::clock_ns();
        switch (args_.mode) {
        case WARPBELL_GAUGE_PAUSE:
            repeat([](u64) { port::pause(); });
            break;
        case WARPBELL_GAUGE_CLOCK:
            repeat([this](u64) { seen_ ^= port::clock_ns(); });
            break;
        case WARPBELL_GAUGE_LOAD:
            repeat([this](u64) { seen_ ^= port::load_relaxed_gpu(wide()); });
            break;
        case WARPBELL_GAUGE_CAS:
            seen_ = port::load_relaxed_gpu(wide());
            repeat([this](u64) { switch_over(); });
            break;
        case WARPBELL_GAUGE_PING:
            exchange(true);
            break;
        case WARPBELL_GAUGE_PONG:
            exchange(false);
            break;
        default:
            exchange(port::block_index() == 0);
            break;
        }
        warpbell_gauge_result& result =
            reinterpret_cast<warpbell_gauge_result*>(args_.results)[warp_number()];
        result.start_ns = start_ns;
        result.end_ns = port::clock_ns();
        result.rounds = done_;
        result.retries = retries_;
    }

  private:
    WARPBELL_D u64* wide() const { return reinterpret_cast<u64*>(args_.word); }

    template <class Once> WARPBELL_D void repeat(Once once) {
        WARPBELL_NO_UNROLL
        for (; done_ < args_.rounds; ++done_) {
            once(done_);
        }
    }

    // As a submitter reserves: the value that a lost exchange found is the next guess.
    WARPBELL_D void switch_over() {
        for (;;) {
            const u64 found = port::cas_relaxed_gpu(wide(), seen_, seen_ + 1u);
            if (found == seen_) {
                ++seen_;
                return;
            }
            seen_ = found;
            ++retries_;
        }
    }

    // A message there, and one back, as a command and its completion.
    WARPBELL_D void exchange(bool ping) {
        u32* word = reinterpret_cast<u32*>(args_.word);
        u32* answer = reinterpret_cast<u32*>(args_.answer);
        for (u32 round = 1; round <= static_cast<u32>(args_.rounds); ++round) {
            if (ping) {
                port::store_release_sys(word, round);
            }
            if (!await(ping ? answer : word, round)) {
                return;
            }
            if (!ping) {
                port::store_release_sys(answer, round);
            }
            ++done_;
        }
    }
    WARPBELL_D bool await(const u32* word, u32 value) {
        u32 polls = 0;
        while (port::load_relaxed_sys(word) != value) {
            ++retries_;
            if ((++polls & 1023u) == 0 && stop_asked(args_.mailbox)) {
                return false;
            }
            port::pause();
        }
        port::fence_sys();
        return true;
    }

    const warpbell_gauge_args& args_;
    u64 seen_ = 0, done_ = 0, retries_ = 0;
};

} // namespace kernels

WARPBELL_KERNEL(gauge, warpbell_gauge_args) {
    if (warpbell::port::lane() == 0) {
        kernels::gauge_lane(args).run();
    }
}
