// clock.cpp - CLOCK_MONOTONIC at half its price.
//
// Deadlines are looked at in every wait, so the clock is on a hot path. Where the processor's time stamp
// counter runs at one rate for ever, time is extrapolated from it, for at most a millisecond since
// CLOCK_MONOTONIC was last read: what the two differ by stays below a microsecond, and time given out on one
// thread never goes back.
#include "hooks.h"

#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace [[gnu::visibility("hidden")]] simt {

namespace {

SIMT_NO_TSAN uint64_t monotonic_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

#if defined(__x86_64__)

constexpr uint64_t anchor_ns = 1000000;
__extension__ typedef unsigned __int128 u128;

struct Moment {
    uint64_t ticks, ns;
};

// Of one thread. rate is in 2^-32 ns a tick, 0 while it is not known.
struct Clock {
    Moment first, anchor;
    uint64_t rate, most_ticks, last;
    bool looked, usable;
};

thread_local constinit Clock mine = {};

SIMT_NO_TSAN bool ticks_are_steady() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d >> 8 & 1);
}

// Reads the true time, and the rate once two readings lie far enough apart.
SIMT_NO_TSAN uint64_t take_anchor(Clock& clock) {
    clock.anchor = {__rdtsc(), monotonic_ns()};
    if (!clock.looked) {
        clock.looked = true;
        clock.usable = ticks_are_steady();
        clock.first = clock.anchor;
    }
    const uint64_t ticks = clock.anchor.ticks - clock.first.ticks, ns = clock.anchor.ns - clock.first.ns;
    if (clock.usable && ns >= anchor_ns && ticks != 0) {
        clock.rate = static_cast<uint64_t>((static_cast<u128>(ns) << 32) / ticks);
        clock.most_ticks = (anchor_ns << 32) / (clock.rate + 1);
    }
    return clock.anchor.ns;
}

SIMT_NO_TSAN uint64_t read_clock(Clock& clock) {
    const uint64_t ticks = __rdtsc() - clock.anchor.ticks;
    const uint64_t now =
        ticks < clock.most_ticks ? clock.anchor.ns + (ticks * clock.rate >> 32) : take_anchor(clock);
    return clock.last = now > clock.last ? now : clock.last;
}

#endif

} // namespace

SIMT_NO_TSAN uint64_t host_clock_ns() {
#if defined(__x86_64__)
    return read_clock(mine);
#else
    return monotonic_ns();
#endif
}

} // namespace simt
