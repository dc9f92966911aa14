// Commands beside read, write and flush, and writes that are durable when they are answered.
//
// | call                                        | arguments             | status                          |
// | ------------------------------------------- | --------------------- | ------------------------------- |
// | compare, write_zeroes, read_fua, write_fua  | the same in each lane | one I/O; the same in each lane  |
// | compare_each, .., write_fua_each            | each lane its own     | each lane its own; one doorbell |
// | deallocate                                  | each lane its own     | one command; the same in each   |
// | compare_async, .., deallocate_async -> wait | as without            | the same in each lane           |
// | compare_each_async, .. -> wait_each         | each lane its own     | each lane its own               |
//
// Without a group: this thread alone. Checked, split and waited for as reads and writes are, blocking or with
// tokens (io.cuh). A controller that lacks one of them answers Invalid Command Opcode.
#pragma once

#include "io.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

// Of dword 12 of a Read or a Write: what read_fua and write_fua add.
constexpr u32 force_unit_access = mutate::fua_forgotten ? 0 : 1u << 30;

// Compares blocks with data. That they differ is an answer of the controller's (status::differs), success
// means that they are alike.
template <class Group, sharing Mode, class Retry>
WARPBELL_D status compare(const Group& group, session<Mode, Retry>& s, extent where, const dma_span& with,
                          u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D status compare_each(const Group& group, session<Mode, Retry>& s, optional<extent> where,
                               const dma_span& with, u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token compare_async(const Group& group, session<Mode, Retry>& s, extent where,
                                  const dma_span& with, u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token compare_each_async(const Group& group, session<Mode, Retry>& s, optional<extent> where,
                                       const dma_span& with, u64 timeout_ns = 0);

// Blocks of zeros, for which no data is moved.
template <class Group, sharing Mode, class Retry>
WARPBELL_D status write_zeroes(const Group& group, session<Mode, Retry>& s, extent where, u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D status write_zeroes_each(const Group& group, session<Mode, Retry>& s, optional<extent> where,
                                    u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token write_zeroes_async(const Group& group, session<Mode, Retry>& s, extent where,
                                       u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token write_zeroes_each_async(const Group& group, session<Mode, Retry>& s,
                                            optional<extent> where, u64 timeout_ns = 0);

// Force Unit Access: a write is answered when it is durable, a read brings what is durable.
template <class Group, sharing Mode, class Retry>
WARPBELL_D status read_fua(const Group& group, session<Mode, Retry>& s, extent from, const dma_span& to,
                           u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D status read_fua_each(const Group& group, session<Mode, Retry>& s, optional<extent> from,
                                const dma_span& to, u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token read_fua_async(const Group& group, session<Mode, Retry>& s, extent from,
                                   const dma_span& to, u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token read_fua_each_async(const Group& group, session<Mode, Retry>& s, optional<extent> from,
                                        const dma_span& to, u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D status write_fua(const Group& group, session<Mode, Retry>& s, extent to, const dma_span& from,
                            u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D status write_fua_each(const Group& group, session<Mode, Retry>& s, optional<extent> to,
                                 const dma_span& from, u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token write_fua_async(const Group& group, session<Mode, Retry>& s, extent to,
                                    const dma_span& from, u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token write_fua_each_async(const Group& group, session<Mode, Retry>& s, optional<extent> to,
                                         const dma_span& from, u64 timeout_ns = 0);

// Tells the SSD that nobody needs these blocks any more (Dataset Management, Deallocate): the extents of all
// lanes in one command, which the SSD may heed or not. Lanes without one pass nullopt. One bad extent, and
// nothing is submitted. `list`: 16 bytes for each lane of the group, 16-byte aligned, in which the
// extents are put; the SSD reads it until the call is answered with anything but buffer_in_use().
template <class Group, sharing Mode, class Retry>
WARPBELL_D status deallocate(const Group& group, session<Mode, Retry>& s, optional<extent> mine,
                             const dma_span& list, u64 timeout_ns = 0);
template <class Group, sharing Mode, class Retry>
WARPBELL_D io_token deallocate_async(const Group& group, session<Mode, Retry>& s, optional<extent> mine,
                                     const dma_span& list, u64 timeout_ns = 0);

// ---- without a group: this thread
// --------------------------------------------------------------------------

template <sharing Mode, class Retry>
WARPBELL_D status compare(session<Mode, Retry>& s, extent where, const dma_span& with, u64 timeout_ns = 0);
template <sharing Mode, class Retry>
WARPBELL_D status write_zeroes(session<Mode, Retry>& s, extent where, u64 timeout_ns = 0);
template <sharing Mode, class Retry>
WARPBELL_D status read_fua(session<Mode, Retry>& s, extent from, const dma_span& to, u64 timeout_ns = 0);
template <sharing Mode, class Retry>
WARPBELL_D status write_fua(session<Mode, Retry>& s, extent to, const dma_span& from, u64 timeout_ns = 0);
template <sharing Mode, class Retry>
WARPBELL_D status deallocate(session<Mode, Retry>& s, extent mine, const dma_span& list, u64 timeout_ns = 0);
template <sharing Mode, class Retry>
WARPBELL_D io_token compare_async(session<Mode, Retry>& s, extent where, const dma_span& with,
                                  u64 timeout_ns = 0);
template <sharing Mode, class Retry>
WARPBELL_D io_token write_zeroes_async(session<Mode, Retry>& s, extent where, u64 timeout_ns = 0);
template <sharing Mode, class Retry>
WARPBELL_D io_token read_fua_async(session<Mode, Retry>& s, extent from, const dma_span& to,
                                   u64 timeout_ns = 0);
template <sharing Mode, class Retry>
WARPBELL_D io_token write_fua_async(session<Mode, Retry>& s, extent to, const dma_span& from,
                                    u64 timeout_ns = 0);
template <sharing Mode, class Retry>
WARPBELL_D io_token deallocate_async(session<Mode, Retry>& s, extent mine, const dma_span& list,
                                     u64 timeout_ns = 0);

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell

#include "impl/commands.cuh"
