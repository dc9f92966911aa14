/* Every field of every struct of abi.h and the headers beside it, so that mirrors in other languages can be
 * checked against what this compiler made of them. The static assertions prove that the list is complete: the
 * fields' sizes add up to the struct's, which also means that no padding is implicit. */
#ifndef WARPBELL_ABI_TABLE_H
#define WARPBELL_ABI_TABLE_H

#include "abi.h"
#include "abi_cache.h"
#include "abi_file.h"
#include "abi_stream.h"
#include "abi_trace.h"
#include "abi_volume.h"

/* F(struct, field) for each field of one struct. Formatted by hand: clang-format finds no rest in them. */
/* clang-format off */
#define WARPBELL_FIELDS_QUEUE_STATE(F) \
    F(warpbell_queue_state, abi_version) F(warpbell_queue_state, size) \
    F(warpbell_queue_state, sqhd_mismatch) F(warpbell_queue_state, shadow_stride) \
    F(warpbell_queue_state, shadow) F(warpbell_queue_state, events) F(warpbell_queue_state, trace) \
    F(warpbell_queue_state, flush_register) F(warpbell_queue_state, flush_data) \
    F(warpbell_queue_state, deallocate_blocks) F(warpbell_queue_state, deallocate_ranges) \
    F(warpbell_queue_state, deallocate_range_blocks) F(warpbell_queue_state, pad0) \
    F(warpbell_queue_state, spurious) F(warpbell_queue_state, late) F(warpbell_queue_state, ticket) \
    F(warpbell_queue_state, pad1) F(warpbell_queue_state, turn) F(warpbell_queue_state, rung) F(warpbell_queue_state, pad2) \
    F(warpbell_queue_state, reap) F(warpbell_queue_state, pad3) F(warpbell_queue_state, head) \
    F(warpbell_queue_state, surplus) F(warpbell_queue_state, pad4) F(warpbell_queue_state, exclusive_tail) \
    F(warpbell_queue_state, exclusive_head) F(warpbell_queue_state, exclusive_reported) \
    F(warpbell_queue_state, pad5)

#define WARPBELL_FIELDS_QUEUE_HOST(F) \
    F(warpbell_queue_host, abi_version) F(warpbell_queue_host, size) F(warpbell_queue_host, state) \
    F(warpbell_queue_host, alarm) F(warpbell_queue_host, quarantine) \
    F(warpbell_queue_host, successor) F(warpbell_queue_host, hazards) F(warpbell_queue_host, pad)

#define WARPBELL_FIELDS_QUEUE_REF(F) \
    F(warpbell_queue_ref, abi_version) F(warpbell_queue_ref, size) F(warpbell_queue_ref, sq) \
    F(warpbell_queue_ref, cq) F(warpbell_queue_ref, sq_doorbell) F(warpbell_queue_ref, cq_doorbell) \
    F(warpbell_queue_ref, state) F(warpbell_queue_ref, words) F(warpbell_queue_ref, host) \
    F(warpbell_queue_ref, quarantine) F(warpbell_queue_ref, timeout_ns) \
    F(warpbell_queue_ref, sq_shift) F(warpbell_queue_ref, cq_shift) \
    F(warpbell_queue_ref, ring_shift) F(warpbell_queue_ref, cq_doorbell_batch) \
    F(warpbell_queue_ref, local_bits) F(warpbell_queue_ref, token_shift) \
    F(warpbell_queue_ref, warp_slots) F(warpbell_queue_ref, qid) F(warpbell_queue_ref, epoch) \
    F(warpbell_queue_ref, sharing) F(warpbell_queue_ref, flags) F(warpbell_queue_ref, pad0)

#define WARPBELL_FIELDS_NAMESPACE_REF(F) \
    F(warpbell_namespace_ref, abi_version) F(warpbell_namespace_ref, size) \
    F(warpbell_namespace_ref, queues) F(warpbell_namespace_ref, blocks) \
    F(warpbell_namespace_ref, queue_count) F(warpbell_namespace_ref, sharing) \
    F(warpbell_namespace_ref, warps) F(warpbell_namespace_ref, nsid) \
    F(warpbell_namespace_ref, block_shift) F(warpbell_namespace_ref, max_blocks) \
    F(warpbell_namespace_ref, page_shift) F(warpbell_namespace_ref, flags) \
    F(warpbell_namespace_ref, lease_first) F(warpbell_namespace_ref, lease_end) \
    F(warpbell_namespace_ref, lease_iova) F(warpbell_namespace_ref, lease_iova_end) \
    F(warpbell_namespace_ref, crdt) F(warpbell_namespace_ref, zeroes_blocks)

#define WARPBELL_FIELDS_BUFFER_REF(F) \
    F(warpbell_buffer_ref, abi_version) F(warpbell_buffer_ref, size) F(warpbell_buffer_ref, data) \
    F(warpbell_buffer_ref, iova) F(warpbell_buffer_ref, bytes) F(warpbell_buffer_ref, prp_iova) \
    F(warpbell_buffer_ref, page_shift) F(warpbell_buffer_ref, flags)

#define WARPBELL_FIELDS_MAILBOX(F) \
    F(warpbell_mailbox, abi_version) F(warpbell_mailbox, size) F(warpbell_mailbox, stop) \
    F(warpbell_mailbox, claimed) F(warpbell_mailbox, error_lba) F(warpbell_mailbox, error_status) \
    F(warpbell_mailbox, error_block) F(warpbell_mailbox, error_thread) F(warpbell_mailbox, reported) \
    F(warpbell_mailbox, pad)

#define WARPBELL_FIELDS_TRACE_EVENT(F) \
    F(warpbell_trace_event, clock_ns) F(warpbell_trace_event, value) F(warpbell_trace_event, what) \
    F(warpbell_trace_event, cid) F(warpbell_trace_event, detail) F(warpbell_trace_event, index)

#define WARPBELL_FIELDS_TRACE_LANE(F) \
    F(warpbell_trace_lane, events) F(warpbell_trace_lane, written) F(warpbell_trace_lane, shift) \
    F(warpbell_trace_lane, pad0) F(warpbell_trace_lane, pad1)

#define WARPBELL_FIELDS_VOLUME_MEMBER(F) \
    F(warpbell_volume_member, abi_version) F(warpbell_volume_member, size) F(warpbell_volume_member, ns) \
    F(warpbell_volume_member, chunks) F(warpbell_volume_member, unit_shift) F(warpbell_volume_member, distance)
#define WARPBELL_FIELDS_VOLUME_COUNTS(F) \
    F(warpbell_volume_counts, bytes_read) F(warpbell_volume_counts, bytes_written) \
    F(warpbell_volume_counts, errors) F(warpbell_volume_counts, error_status) F(warpbell_volume_counts, pad)
#define WARPBELL_FIELDS_VOLUME_STATE(F) \
    F(warpbell_volume_state, present) F(warpbell_volume_state, avoided) F(warpbell_volume_state, pad)
#define WARPBELL_FIELDS_VOLUME_REF(F) \
    F(warpbell_volume_ref, abi_version) F(warpbell_volume_ref, size) F(warpbell_volume_ref, members) \
    F(warpbell_volume_ref, counts) F(warpbell_volume_ref, state) F(warpbell_volume_ref, blocks) \
    F(warpbell_volume_ref, member_count) F(warpbell_volume_ref, layout) F(warpbell_volume_ref, block_shift) \
    F(warpbell_volume_ref, chunk_blocks) F(warpbell_volume_ref, piece_blocks) F(warpbell_volume_ref, flags)
#define WARPBELL_FIELDS_VOLUME_BUFFER_REF(F) \
    F(warpbell_volume_buffer_ref, abi_version) F(warpbell_volume_buffer_ref, size) \
    F(warpbell_volume_buffer_ref, parts) F(warpbell_volume_buffer_ref, data) \
    F(warpbell_volume_buffer_ref, bytes) F(warpbell_volume_buffer_ref, member_count) \
    F(warpbell_volume_buffer_ref, pad0)

#define WARPBELL_FIELDS_FILE_EXTENT(F) \
    F(warpbell_file_extent, first) F(warpbell_file_extent, blocks) F(warpbell_file_extent, lba) \
    F(warpbell_file_extent, reserved)
#define WARPBELL_FIELDS_FILE_REF(F) \
    F(warpbell_file_ref, abi_version) F(warpbell_file_ref, size) F(warpbell_file_ref, extents) \
    F(warpbell_file_ref, buckets) F(warpbell_file_ref, bytes) F(warpbell_file_ref, count) \
    F(warpbell_file_ref, block_shift) F(warpbell_file_ref, bucket_count) F(warpbell_file_ref, bucket_shift)

#define WARPBELL_FIELDS_CACHE_LINE(F) \
    F(warpbell_cache_line, state) F(warpbell_cache_line, page) F(warpbell_cache_line, next) \
    F(warpbell_cache_line, stamp) F(warpbell_cache_line, error) F(warpbell_cache_line, pad0)

#define WARPBELL_FIELDS_CACHE_REPORT(F) \
    F(warpbell_cache_report, hand) F(warpbell_cache_report, pad0) F(warpbell_cache_report, hits) \
    F(warpbell_cache_report, misses) F(warpbell_cache_report, write_backs) \
    F(warpbell_cache_report, error_status) F(warpbell_cache_report, error_page) \
    F(warpbell_cache_report, prefetched) F(warpbell_cache_report, prefetched_used) \
    F(warpbell_cache_report, prefetched_in_vain) F(warpbell_cache_report, prefetch_skipped) \
    F(warpbell_cache_report, pad1)

#define WARPBELL_FIELDS_CACHE_REF(F) \
    F(warpbell_cache_ref, abi_version) F(warpbell_cache_ref, size) F(warpbell_cache_ref, lines) \
    F(warpbell_cache_ref, buckets) F(warpbell_cache_ref, report) F(warpbell_cache_ref, first_block) \
    F(warpbell_cache_ref, pages) F(warpbell_cache_ref, timeout_ns) F(warpbell_cache_ref, kept_first) \
    F(warpbell_cache_ref, kept_pages) F(warpbell_cache_ref, line_count) F(warpbell_cache_ref, bucket_mask) \
    F(warpbell_cache_ref, page_shift) F(warpbell_cache_ref, pad0)

#define WARPBELL_FIELDS_TILE_STEP(F) \
    F(warpbell_tile_step, tile) F(warpbell_tile_step, first_block) F(warpbell_tile_step, row_stride) \
    F(warpbell_tile_step, blocks) F(warpbell_tile_step, rows) F(warpbell_tile_step, slot) \
    F(warpbell_tile_step, after) F(warpbell_tile_step, flags) F(warpbell_tile_step, pad0)

#define WARPBELL_FIELDS_SCHEDULE_REF(F) \
    F(warpbell_schedule_ref, abi_version) F(warpbell_schedule_ref, size) F(warpbell_schedule_ref, steps) \
    F(warpbell_schedule_ref, step_count) F(warpbell_schedule_ref, slots) \
    F(warpbell_schedule_ref, slot_bytes) F(warpbell_schedule_ref, pad0)

/* clang-format on */

/* S(struct, list of its fields) for each struct. */
#define WARPBELL_ABI_STRUCTS(S)                                                                              \
    S(warpbell_queue_state, WARPBELL_FIELDS_QUEUE_STATE)                                                     \
    S(warpbell_queue_host, WARPBELL_FIELDS_QUEUE_HOST)                                                       \
    S(warpbell_queue_ref, WARPBELL_FIELDS_QUEUE_REF)                                                         \
    S(warpbell_namespace_ref, WARPBELL_FIELDS_NAMESPACE_REF)                                                 \
    S(warpbell_buffer_ref, WARPBELL_FIELDS_BUFFER_REF)                                                       \
    S(warpbell_mailbox, WARPBELL_FIELDS_MAILBOX)                                                             \
    S(warpbell_trace_event, WARPBELL_FIELDS_TRACE_EVENT)                                                     \
    S(warpbell_trace_lane, WARPBELL_FIELDS_TRACE_LANE)                                                       \
    S(warpbell_volume_member, WARPBELL_FIELDS_VOLUME_MEMBER)                                                 \
    S(warpbell_volume_counts, WARPBELL_FIELDS_VOLUME_COUNTS)                                                 \
    S(warpbell_volume_state, WARPBELL_FIELDS_VOLUME_STATE)                                                   \
    S(warpbell_volume_ref, WARPBELL_FIELDS_VOLUME_REF)                                                       \
    S(warpbell_volume_buffer_ref, WARPBELL_FIELDS_VOLUME_BUFFER_REF)                                         \
    S(warpbell_file_extent, WARPBELL_FIELDS_FILE_EXTENT)                                                     \
    S(warpbell_file_ref, WARPBELL_FIELDS_FILE_REF)                                                           \
    S(warpbell_cache_line, WARPBELL_FIELDS_CACHE_LINE)                                                       \
    S(warpbell_cache_report, WARPBELL_FIELDS_CACHE_REPORT)                                                   \
    S(warpbell_cache_ref, WARPBELL_FIELDS_CACHE_REF)                                                         \
    S(warpbell_tile_step, WARPBELL_FIELDS_TILE_STEP)                                                         \
    S(warpbell_schedule_ref, WARPBELL_FIELDS_SCHEDULE_REF)

typedef struct warpbell_abi_row {
    const char* structure;
    const char* field; /* "": the struct itself, with its alignment as the offset */
    uint32_t offset;
    uint32_t size;
} warpbell_abi_row;

#ifdef __cplusplus
extern "C" {
#endif
/* In modules for the CPU target. Ends with a row whose structure is null. */
extern const warpbell_abi_row warpbell_abi_table[];
#ifdef __cplusplus
}

#define WARPBELL_FIELD_SIZE(s, f) +sizeof(((s*)0)->f)
#define WARPBELL_STRUCT_COMPLETE(s, fields)                                                                  \
    static_assert(sizeof(s) == 0 fields(WARPBELL_FIELD_SIZE),                                                \
                  #s ": a field is missing from the table, or padding is implicit");
WARPBELL_ABI_STRUCTS(WARPBELL_STRUCT_COMPLETE)
#endif

#endif
