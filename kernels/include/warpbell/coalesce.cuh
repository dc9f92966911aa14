// Requests of a warp that lie side by side, as fewer and larger commands.
//
// As read_each and write_each: each lane its own extent, and its own answer. Where a lane's extent follows
// that of the lane before it, on the SSD and in the same buffer, one command moves both, up to the most that
// a command may move. Equal buffer references are the same buffer, wherever they lie. All requests of a
// command have its status: one that fails fails them all.
#pragma once

#include "io.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

template <class Group, sharing Mode, class Retry>
WARPBELL_D status read_coalesced(const Group& group, session<Mode, Retry>& s, optional<extent> from,
                                 const dma_span& to, u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D status write_coalesced(const Group& group, session<Mode, Retry>& s, optional<extent> to,
                                  const dma_span& from, u64 timeout_ns = 0);

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell

#include "impl/coalesce.cuh"
