// Policies for commands that failed for now: whether blocking calls of io.cuh submit them again, and when.
//
//   wb::session<wb::sharing::shared, wb::retry> ssd(warp, ns, w, wb::retry{3});
//
// A command is submitted again where its status says that it may then succeed (status::retryable): not where
// the controller says Do Not Retry, not after an error of the medium, not with a buffer that the controller
// may still use. Never beyond the call's deadline.
#pragma once

#include "queue.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

template <sharing Mode, class Retry> class session;

// Each call answers what became of the first attempt. Costs nothing.
struct no_retry {
    static constexpr bool enabled = false;
};

// A command is submitted up to `most` times again, after the delay that its status asks for. When the queue
// is lost, the call moves on to its successor by itself, and submits there.
struct retry {
    static constexpr bool enabled = true;
    u32 most;
    // What became of this lane's commands, for reports.
    u32 timed_out, not_submitted, aborted, retried, queue_losses, recovered;

    WARPBELL_D explicit retry(u32 most_retries = 3)
        : most(most_retries), timed_out(0), not_submitted(0), aborted(0), retried(0), queue_losses(0),
          recovered(0) {}
};

// How long to wait before a command that got `answer` is submitted again; nullopt: it is not. `left`:
// attempts that the bound still allows. Command Retry Delay (NVMe Base 2.0, 3.3.3.2.1) names one of the times
// that the controller gave in its Identify data.
template <sharing Mode, class Retry>
WARPBELL_D optional<u64> retry_delay_ns(const session<Mode, Retry>& s, status answer, u32 left) {
    if ((left == 0 && !mutate::retry_unbounded) || !answer.retryable()) {
        return nullopt;
    }
    const u32 delay = answer.from_library() ? 0 : answer.retry_delay();
    return delay != 0 ? s.retry_delay_ns(delay) : u64(0);
}

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
