/* Every field of every struct of abi.h and the headers beside it, so that mirrors in other languages can be
 * checked against what this compiler made of them. The static assertions prove that the list is complete: the
 * fields' sizes add up to the struct's, which also means that no padding is implicit. */
#ifndef WARPBELL_ABI_TABLE_H
#define WARPBELL_ABI_TABLE_H

#include "abi.h"
#include "abi_bench.h"
#include "abi_cache.h"
#include "abi_check.h"
#include "abi_lab.h"
#include "abi_resident.h"
#include "abi_stream.h"
#include "abi_trace.h"
#include "abi_volume.h"

/* F(struct, field) for each field of one struct. Formatted by hand: clang-format finds no rest in them. */
/* clang-format off */
#define WARPBELL_FIELDS_QUEUE_STATE(F) \
    F(warpbell_queue_state, abi_version) F(warpbell_queue_state, size) \
    F(warpbell_queue_state, sqhd_mismatch) F(warpbell_queue_state, shadow_stride) \
    F(warpbell_queue_state, shadow) F(warpbell_queue_state, events) F(warpbell_queue_state, trace) F(warpbell_queue_state, pad0) \
    F(warpbell_queue_state, spurious) F(warpbell_queue_state, late) F(warpbell_queue_state, ticket) \
    F(warpbell_queue_state, pad1) F(warpbell_queue_state, turn) F(warpbell_queue_state, rung) F(warpbell_queue_state, pad2) \
    F(warpbell_queue_state, reap) F(warpbell_queue_state, pad3) F(warpbell_queue_state, head) \
    F(warpbell_queue_state, surplus) F(warpbell_queue_state, pad4) F(warpbell_queue_state, exclusive_tail) \
    F(warpbell_queue_state, exclusive_head) F(warpbell_queue_state, exclusive_told) \
    F(warpbell_queue_state, pad5)

#define WARPBELL_FIELDS_QUEUE_HOST(F) \
    F(warpbell_queue_host, abi_version) F(warpbell_queue_host, size) F(warpbell_queue_host, state) \
    F(warpbell_queue_host, alarm) F(warpbell_queue_host, quarantine) \
    F(warpbell_queue_host, successor) F(warpbell_queue_host, seats) F(warpbell_queue_host, pad)

#define WARPBELL_FIELDS_QUEUE_REF(F) \
    F(warpbell_queue_ref, abi_version) F(warpbell_queue_ref, size) F(warpbell_queue_ref, sq) \
    F(warpbell_queue_ref, cq) F(warpbell_queue_ref, sq_doorbell) F(warpbell_queue_ref, cq_doorbell) \
    F(warpbell_queue_ref, state) F(warpbell_queue_ref, words) F(warpbell_queue_ref, host) \
    F(warpbell_queue_ref, quarantine) F(warpbell_queue_ref, deadline_ns) \
    F(warpbell_queue_ref, sq_shift) F(warpbell_queue_ref, cq_shift) \
    F(warpbell_queue_ref, ring_shift) F(warpbell_queue_ref, told_threshold) \
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
    F(warpbell_namespace_ref, crdt) F(warpbell_namespace_ref, pad0)

#define WARPBELL_FIELDS_BUFFER_REF(F) \
    F(warpbell_buffer_ref, abi_version) F(warpbell_buffer_ref, size) F(warpbell_buffer_ref, data) \
    F(warpbell_buffer_ref, iova) F(warpbell_buffer_ref, bytes) F(warpbell_buffer_ref, prp_iova) \
    F(warpbell_buffer_ref, page_shift) F(warpbell_buffer_ref, flags)

#define WARPBELL_FIELDS_MAILBOX(F) \
    F(warpbell_mailbox, abi_version) F(warpbell_mailbox, size) F(warpbell_mailbox, stop) \
    F(warpbell_mailbox, claimed) F(warpbell_mailbox, error_lba) F(warpbell_mailbox, error_status) \
    F(warpbell_mailbox, error_block) F(warpbell_mailbox, error_thread) F(warpbell_mailbox, reported) \
    F(warpbell_mailbox, pad)

#define WARPBELL_FIELDS_WARP_RESULT(F) \
    F(warpbell_warp_result, abi_version) F(warpbell_warp_result, size) \
    F(warpbell_warp_result, reads) F(warpbell_warp_result, writes) \
    F(warpbell_warp_result, bytes_read) F(warpbell_warp_result, bytes_written) \
    F(warpbell_warp_result, errors) F(warpbell_warp_result, error_lba) \
    F(warpbell_warp_result, error_status) F(warpbell_warp_result, queue) \
    F(warpbell_warp_result, mismatches) F(warpbell_warp_result, mismatch_lba) \
    F(warpbell_warp_result, expected) F(warpbell_warp_result, actual) \
    F(warpbell_warp_result, start_ns) F(warpbell_warp_result, end_ns) \
    F(warpbell_warp_result, timed_out) F(warpbell_warp_result, not_submitted) \
    F(warpbell_warp_result, aborted) \
    F(warpbell_warp_result, retried) F(warpbell_warp_result, queue_losses) \
    F(warpbell_warp_result, recovered)

#define WARPBELL_FIELDS_BENCH_ARGS(F) \
    F(warpbell_bench_args, abi_version) F(warpbell_bench_args, size) F(warpbell_bench_args, ns) \
    F(warpbell_bench_args, buffer) F(warpbell_bench_args, mailbox) F(warpbell_bench_args, results) \
    F(warpbell_bench_args, histograms) F(warpbell_bench_args, crc_tables) \
    F(warpbell_bench_args, first_lba) F(warpbell_bench_args, units) F(warpbell_bench_args, seed) \
    F(warpbell_bench_args, io_limit) F(warpbell_bench_args, runtime_ns) \
    F(warpbell_bench_args, deadline_ns) F(warpbell_bench_args, blocks_per_io) \
    F(warpbell_bench_args, iodepth) F(warpbell_bench_args, units_per_warp) \
    F(warpbell_bench_args, batch) F(warpbell_bench_args, read_percent) \
    F(warpbell_bench_args, pattern) F(warpbell_bench_args, api) F(warpbell_bench_args, verify) \
    F(warpbell_bench_args, recover_ns) F(warpbell_bench_args, retries) F(warpbell_bench_args, pad0)

#define WARPBELL_FIELDS_UNIT_HEADER(F) \
    F(warpbell_unit_header, magic) F(warpbell_unit_header, lba) F(warpbell_unit_header, seed) \
    F(warpbell_unit_header, payload_crc32c) F(warpbell_unit_header, bytes)

#define WARPBELL_FIELDS_CHUNK_RESULT(F) \
    F(warpbell_chunk_result, crc32c) F(warpbell_chunk_result, status)

#define WARPBELL_FIELDS_DIGEST_ARGS(F) \
    F(warpbell_digest_args, abi_version) F(warpbell_digest_args, size) F(warpbell_digest_args, ns) \
    F(warpbell_digest_args, buffer) F(warpbell_digest_args, mailbox) \
    F(warpbell_digest_args, results) F(warpbell_digest_args, chunks) \
    F(warpbell_digest_args, crc_tables) F(warpbell_digest_args, first_lba) \
    F(warpbell_digest_args, bytes) F(warpbell_digest_args, deadline_ns) \
    F(warpbell_digest_args, chunk_blocks) F(warpbell_digest_args, retries)

#define WARPBELL_FIELDS_TEST_RECORD(F) \
    F(warpbell_test_record, answers) F(warpbell_test_record, status) \
    F(warpbell_test_record, payload) F(warpbell_test_record, cid) F(warpbell_test_record, lba) \
    F(warpbell_test_record, found)

#define WARPBELL_FIELDS_QUEUE_TEST_ARGS(F) \
    F(warpbell_queue_test_args, abi_version) F(warpbell_queue_test_args, size) \
    F(warpbell_queue_test_args, ns) F(warpbell_queue_test_args, buffer) \
    F(warpbell_queue_test_args, mailbox) F(warpbell_queue_test_args, records) \
    F(warpbell_queue_test_args, results) F(warpbell_queue_test_args, seed) \
    F(warpbell_queue_test_args, deadline_ns) F(warpbell_queue_test_args, submit_deadline_ns) \
    F(warpbell_queue_test_args, commands) F(warpbell_queue_test_args, batch) \
    F(warpbell_queue_test_args, async_depth) F(warpbell_queue_test_args, mode) \
    F(warpbell_queue_test_args, flags) F(warpbell_queue_test_args, pad0)

#define WARPBELL_FIELDS_RESIDENT_QUEUE(F) \
    F(warpbell_resident_queue, abi_version) F(warpbell_resident_queue, size) \
    F(warpbell_resident_queue, sq) F(warpbell_resident_queue, cq) \
    F(warpbell_resident_queue, sq_doorbell) F(warpbell_resident_queue, cq_doorbell) \
    F(warpbell_resident_queue, in_flight) F(warpbell_resident_queue, flights) \
    F(warpbell_resident_queue, shift) F(warpbell_resident_queue, qid) \
    F(warpbell_resident_queue, published) F(warpbell_resident_queue, fetched) \
    F(warpbell_resident_queue, accepted) F(warpbell_resident_queue, posted) \
    F(warpbell_resident_queue, taken) F(warpbell_resident_queue, first_rule) \
    F(warpbell_resident_queue, first_cid) F(warpbell_resident_queue, first_fetched) \
    F(warpbell_resident_queue, first_value) F(warpbell_resident_queue, commands) \
    F(warpbell_resident_queue, digest) F(warpbell_resident_queue, broken)

#define WARPBELL_FIELDS_RESIDENT_FLIGHT(F) \
    F(warpbell_resident_flight, due_ns) F(warpbell_resident_flight, cid) \
    F(warpbell_resident_flight, status)

#define WARPBELL_FIELDS_RESIDENT_ARGS(F) \
    F(warpbell_resident_args, abi_version) F(warpbell_resident_args, size) \
    F(warpbell_resident_args, ns) F(warpbell_resident_args, buffer) \
    F(warpbell_resident_args, mailbox) F(warpbell_resident_args, results) \
    F(warpbell_resident_args, digests) F(warpbell_resident_args, histograms) \
    F(warpbell_resident_args, queues) F(warpbell_resident_args, places) \
    F(warpbell_resident_args, ended) F(warpbell_resident_args, io_limit) \
    F(warpbell_resident_args, runtime_ns) F(warpbell_resident_args, deadline_ns) \
    F(warpbell_resident_args, delay_ns) F(warpbell_resident_args, controller_blocks) \
    F(warpbell_resident_args, clients) F(warpbell_resident_args, iodepth) \
    F(warpbell_resident_args, batch) F(warpbell_resident_args, blocks_per_io) \
    F(warpbell_resident_args, mode) F(warpbell_resident_args, flags) \
    F(warpbell_resident_args, pad0)

#define WARPBELL_FIELDS_GAUGE_RESULT(F) \
    F(warpbell_gauge_result, start_ns) F(warpbell_gauge_result, end_ns) \
    F(warpbell_gauge_result, rounds) F(warpbell_gauge_result, retries)

#define WARPBELL_FIELDS_GAUGE_ARGS(F) \
    F(warpbell_gauge_args, abi_version) F(warpbell_gauge_args, size) F(warpbell_gauge_args, word) \
    F(warpbell_gauge_args, answer) F(warpbell_gauge_args, results) F(warpbell_gauge_args, mailbox) \
    F(warpbell_gauge_args, rounds) F(warpbell_gauge_args, mode) F(warpbell_gauge_args, pad0)

#define WARPBELL_FIELDS_TRACE_EVENT(F) \
    F(warpbell_trace_event, clock_ns) F(warpbell_trace_event, value) F(warpbell_trace_event, what) \
    F(warpbell_trace_event, cid) F(warpbell_trace_event, detail) F(warpbell_trace_event, index)

#define WARPBELL_FIELDS_TRACE_LANE(F) \
    F(warpbell_trace_lane, events) F(warpbell_trace_lane, written) F(warpbell_trace_lane, shift) \
    F(warpbell_trace_lane, pad0) F(warpbell_trace_lane, pad1)

#define WARPBELL_FIELDS_REPLAY_COMMAND(F) \
    F(warpbell_replay_command, lba) F(warpbell_replay_command, due_ns) \
    F(warpbell_replay_command, blocks) F(warpbell_replay_command, opcode)

#define WARPBELL_FIELDS_REPLAY_RESULT(F) \
    F(warpbell_replay_result, flushes) F(warpbell_replay_result, bytes_read) \
    F(warpbell_replay_result, bytes_written) F(warpbell_replay_result, left)

#define WARPBELL_FIELDS_REPLAY_ARGS(F) \
    F(warpbell_replay_args, abi_version) F(warpbell_replay_args, size) F(warpbell_replay_args, ns) \
    F(warpbell_replay_args, buffer) F(warpbell_replay_args, mailbox) F(warpbell_replay_args, results) \
    F(warpbell_replay_args, totals) \
    F(warpbell_replay_args, histograms) F(warpbell_replay_args, commands) F(warpbell_replay_args, firsts) \
    F(warpbell_replay_args, deadline_ns) F(warpbell_replay_args, iodepth) \
    F(warpbell_replay_args, units_per_warp) F(warpbell_replay_args, unit_blocks) F(warpbell_replay_args, batch)
#define WARPBELL_FIELDS_LAB_ARGS(F) \
    F(warpbell_lab_args, abi_version) F(warpbell_lab_args, size) F(warpbell_lab_args, bench) \
    F(warpbell_lab_args, state) F(warpbell_lab_args, queue_words) F(warpbell_lab_args, warps)
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
    F(warpbell_volume_ref, chunk_blocks) F(warpbell_volume_ref, piece_blocks) F(warpbell_volume_ref, pad0)
#define WARPBELL_FIELDS_VOLUME_BUFFER_REF(F) \
    F(warpbell_volume_buffer_ref, abi_version) F(warpbell_volume_buffer_ref, size) \
    F(warpbell_volume_buffer_ref, parts) F(warpbell_volume_buffer_ref, data) \
    F(warpbell_volume_buffer_ref, bytes) F(warpbell_volume_buffer_ref, member_count) \
    F(warpbell_volume_buffer_ref, pad0)

#define WARPBELL_FIELDS_VOLUME_CHECK_RESULT(F) \
    F(warpbell_volume_check_result, units) F(warpbell_volume_check_result, wrong) \
    F(warpbell_volume_check_result, failed) F(warpbell_volume_check_result, status)

#define WARPBELL_FIELDS_VOLUME_CHECK_ARGS(F) \
    F(warpbell_volume_check_args, abi_version) F(warpbell_volume_check_args, size) \
    F(warpbell_volume_check_args, volume) F(warpbell_volume_check_args, buffer) \
    F(warpbell_volume_check_args, results) F(warpbell_volume_check_args, stop) \
    F(warpbell_volume_check_args, units) F(warpbell_volume_check_args, seed) \
    F(warpbell_volume_check_args, unit_blocks) F(warpbell_volume_check_args, writes)

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
    F(warpbell_cache_ref, pages) F(warpbell_cache_ref, deadline_ns) F(warpbell_cache_ref, kept_first) \
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

#define WARPBELL_FIELDS_AGENT_COUNTS(F) \
    F(warpbell_agent_counts, requests) F(warpbell_agent_counts, batches) F(warpbell_agent_counts, refused)

#define WARPBELL_FIELDS_BENCH_AGENT_ARGS(F) \
    F(warpbell_bench_agent_args, abi_version) F(warpbell_bench_agent_args, size) \
    F(warpbell_bench_agent_args, bench) F(warpbell_bench_agent_args, boxes) \
    F(warpbell_bench_agent_args, counts) F(warpbell_bench_agent_args, polls) \
    F(warpbell_bench_agent_args, agents) \
    F(warpbell_bench_agent_args, pad0)

#define WARPBELL_FIELDS_BENCH_BATCH_ARGS(F) \
    F(warpbell_bench_batch_args, abi_version) F(warpbell_bench_batch_args, size) \
    F(warpbell_bench_batch_args, bench) F(warpbell_bench_batch_args, submitters) \
    F(warpbell_bench_batch_args, pad0)

#define WARPBELL_FIELDS_BENCH_ARRAY_ARGS(F) \
    F(warpbell_bench_array_args, abi_version) F(warpbell_bench_array_args, size) \
    F(warpbell_bench_array_args, bench) F(warpbell_bench_array_args, cache) \
    F(warpbell_bench_array_args, sums) F(warpbell_bench_array_args, stored) \
    F(warpbell_bench_array_args, spread) F(warpbell_bench_array_args, pad0)

#define WARPBELL_FIELDS_CHECK_RESULT(F) \
    F(warpbell_check_result, done) F(warpbell_check_result, failed) F(warpbell_check_result, wrong) \
    F(warpbell_check_result, step) F(warpbell_check_result, status)

#define WARPBELL_FIELDS_CHECK_ARGS(F) \
    F(warpbell_check_args, abi_version) F(warpbell_check_args, size) F(warpbell_check_args, ns) \
    F(warpbell_check_args, buffer) F(warpbell_check_args, results) F(warpbell_check_args, stop) \
    F(warpbell_check_args, first_lba) F(warpbell_check_args, seed) F(warpbell_check_args, rounds) \
    F(warpbell_check_args, pad0)
/* clang-format on */

/* S(struct, list of its fields) for each struct. */
#define WARPBELL_ABI_STRUCTS(S)                                                                              \
    S(warpbell_queue_state, WARPBELL_FIELDS_QUEUE_STATE)                                                     \
    S(warpbell_queue_host, WARPBELL_FIELDS_QUEUE_HOST)                                                       \
    S(warpbell_queue_ref, WARPBELL_FIELDS_QUEUE_REF)                                                         \
    S(warpbell_namespace_ref, WARPBELL_FIELDS_NAMESPACE_REF)                                                 \
    S(warpbell_buffer_ref, WARPBELL_FIELDS_BUFFER_REF)                                                       \
    S(warpbell_mailbox, WARPBELL_FIELDS_MAILBOX)                                                             \
    S(warpbell_warp_result, WARPBELL_FIELDS_WARP_RESULT)                                                     \
    S(warpbell_bench_args, WARPBELL_FIELDS_BENCH_ARGS)                                                       \
    S(warpbell_unit_header, WARPBELL_FIELDS_UNIT_HEADER)                                                     \
    S(warpbell_chunk_result, WARPBELL_FIELDS_CHUNK_RESULT)                                                   \
    S(warpbell_digest_args, WARPBELL_FIELDS_DIGEST_ARGS)                                                     \
    S(warpbell_test_record, WARPBELL_FIELDS_TEST_RECORD)                                                     \
    S(warpbell_queue_test_args, WARPBELL_FIELDS_QUEUE_TEST_ARGS)                                             \
    S(warpbell_resident_queue, WARPBELL_FIELDS_RESIDENT_QUEUE)                                               \
    S(warpbell_resident_flight, WARPBELL_FIELDS_RESIDENT_FLIGHT)                                             \
    S(warpbell_resident_args, WARPBELL_FIELDS_RESIDENT_ARGS)                                                 \
    S(warpbell_gauge_result, WARPBELL_FIELDS_GAUGE_RESULT)                                                   \
    S(warpbell_gauge_args, WARPBELL_FIELDS_GAUGE_ARGS)                                                       \
    S(warpbell_trace_event, WARPBELL_FIELDS_TRACE_EVENT)                                                     \
    S(warpbell_trace_lane, WARPBELL_FIELDS_TRACE_LANE)                                                       \
    S(warpbell_replay_command, WARPBELL_FIELDS_REPLAY_COMMAND)                                               \
    S(warpbell_replay_result, WARPBELL_FIELDS_REPLAY_RESULT)                                                 \
    S(warpbell_replay_args, WARPBELL_FIELDS_REPLAY_ARGS)                                                     \
    S(warpbell_lab_args, WARPBELL_FIELDS_LAB_ARGS)                                                           \
    S(warpbell_volume_member, WARPBELL_FIELDS_VOLUME_MEMBER)                                                 \
    S(warpbell_volume_counts, WARPBELL_FIELDS_VOLUME_COUNTS)                                                 \
    S(warpbell_volume_state, WARPBELL_FIELDS_VOLUME_STATE)                                                   \
    S(warpbell_volume_ref, WARPBELL_FIELDS_VOLUME_REF)                                                       \
    S(warpbell_volume_buffer_ref, WARPBELL_FIELDS_VOLUME_BUFFER_REF)                                         \
    S(warpbell_volume_check_result, WARPBELL_FIELDS_VOLUME_CHECK_RESULT)                                     \
    S(warpbell_volume_check_args, WARPBELL_FIELDS_VOLUME_CHECK_ARGS)                                         \
    S(warpbell_cache_line, WARPBELL_FIELDS_CACHE_LINE)                                                       \
    S(warpbell_cache_report, WARPBELL_FIELDS_CACHE_REPORT)                                                   \
    S(warpbell_cache_ref, WARPBELL_FIELDS_CACHE_REF)                                                         \
    S(warpbell_tile_step, WARPBELL_FIELDS_TILE_STEP)                                                         \
    S(warpbell_schedule_ref, WARPBELL_FIELDS_SCHEDULE_REF)                                                   \
    S(warpbell_agent_counts, WARPBELL_FIELDS_AGENT_COUNTS)                                                   \
    S(warpbell_bench_agent_args, WARPBELL_FIELDS_BENCH_AGENT_ARGS)                                           \
    S(warpbell_bench_batch_args, WARPBELL_FIELDS_BENCH_BATCH_ARGS)                                           \
    S(warpbell_bench_array_args, WARPBELL_FIELDS_BENCH_ARRAY_ARGS)                                           \
    S(warpbell_check_result, WARPBELL_FIELDS_CHECK_RESULT)                                                   \
    S(warpbell_check_args, WARPBELL_FIELDS_CHECK_ARGS)

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
#undef WARPBELL_STRUCT_COMPLETE
#undef WARPBELL_FIELD_SIZE
#endif

#endif
