// Requests of a warp that lie side by side, as fewer and larger commands.
//
// As run_each: each lane its own extent, and its own answer. Where a lane's extent follows
// that of the lane before it, on the SSD and in the same buffer, by the same opcode with the same flags, one
// command moves both, up to the most that a command may move. Equal buffer references are the same buffer,
// wherever they lie. All requests of a command have its status: one that fails fails them all.
#pragma once

#include "io.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

template <class Group, sharing Mode, class Retry>
WARPBELL_D status run_coalesced(const Group& group, session<Mode, Retry>& s, const command& mine,
                                u64 timeout_ns = 0);

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell

#include "impl/coalesce.cuh"
