// Blocks that nobody needs any more (Dataset Management, Deallocate: NVM Command Set 1.0, 3.2.3).
#pragma once

#include "io.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

// Tells the SSD so: the extents of all lanes of the group in one command, which the SSD may heed or not. Its
// status is the same in each lane. Lanes without an extent pass nullopt. One bad extent, and nothing is
// submitted. `list`: 16 bytes for each lane of the group, 16-byte aligned, in which the extents are put; the
// SSD reads it until the call is answered with anything but buffer_in_use(). Without the command:
// status::invalid_opcode. Beyond what the SSD takes (DMRL, DMRSL, DMSL): too_large; call it again with
// fewer lanes or smaller extents.
template <class Group, sharing Mode, class Retry>
WARPBELL_D status deallocate(const Group& group, session<Mode, Retry>& s, optional<extent> mine,
                             const dma_span& list, u64 timeout_ns = 0);
// The same with a token, for wait.
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token submit_deallocate(const Group& group, session<Mode, Retry>& s, optional<extent> mine,
                                      const dma_span& list, u64 timeout_ns = 0);

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell

#include "impl/deallocate.cuh"
