// What a warp does between two polls.
#pragma once

#include "../types.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

// What a warp does that has looked and found nothing, or something. Yours may be one.
struct eager {
    WARPBELL_D void idle() { port::pause(); }
    WARPBELL_D void busy() {}
};
// Waits twice as long after each poll in vain, up to `most` pauses.
struct back_off {
    u32 most = 64;
    u32 now = 1;
    WARPBELL_D void idle() {
        WARPBELL_NO_UNROLL
        for (u32 i = 0; i < now; ++i) {
            port::pause();
        }
        now = now < most ? now * 2u : most;
    }
    WARPBELL_D void busy() { now = 1; }
};

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
