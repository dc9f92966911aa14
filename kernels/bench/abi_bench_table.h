/* Every field of every struct that kernels of benches share with their host, as in abi_table.h. */
#ifndef WARPBELL_ABI_BENCH_TABLE_H
#define WARPBELL_ABI_BENCH_TABLE_H

#include "abi_bench.h"
#include "abi_lab.h"
#include "abi_resident.h"
#include <warpbell/abi_table.h>

/* Formatted by hand: clang-format finds no rest in them. */
/* clang-format off */
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
    F(warpbell_bench_args, timeout_ns) F(warpbell_bench_args, blocks_per_io) \
    F(warpbell_bench_args, iodepth) F(warpbell_bench_args, units_per_warp) \
    F(warpbell_bench_args, batch) F(warpbell_bench_args, read_percent) \
    F(warpbell_bench_args, pattern) F(warpbell_bench_args, api) F(warpbell_bench_args, verify) \
    F(warpbell_bench_args, recover_ns) F(warpbell_bench_args, lbas) \
    F(warpbell_bench_args, retries) F(warpbell_bench_args, pad0)

#define WARPBELL_FIELDS_UNIT_HEADER(F) \
    F(warpbell_unit_header, magic) F(warpbell_unit_header, lba) F(warpbell_unit_header, seed) \
    F(warpbell_unit_header, payload_crc32c) F(warpbell_unit_header, bytes)

#define WARPBELL_FIELDS_CHUNK_RESULT(F) \
    F(warpbell_chunk_result, crc32c) F(warpbell_chunk_result, status)

#define WARPBELL_FIELDS_DIGEST_ARGS(F) \
    F(warpbell_digest_args, abi_version) F(warpbell_digest_args, size) F(warpbell_digest_args, ns) \
    F(warpbell_digest_args, buffer) F(warpbell_digest_args, mailbox) \
    F(warpbell_digest_args, results) F(warpbell_digest_args, chunks) \
    F(warpbell_digest_args, crc_tables) F(warpbell_digest_args, file) \
    F(warpbell_digest_args, timeout_ns) \
    F(warpbell_digest_args, chunk_blocks) F(warpbell_digest_args, retries)

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
    F(warpbell_resident_args, runtime_ns) F(warpbell_resident_args, timeout_ns) \
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

#define WARPBELL_FIELDS_REPLAY_COMMAND(F) \
    F(warpbell_replay_command, lba) F(warpbell_replay_command, due_ns) \
    F(warpbell_replay_command, blocks) F(warpbell_replay_command, opcode)

#define WARPBELL_FIELDS_REPLAY_RESULT(F) \
    F(warpbell_replay_result, flushes) F(warpbell_replay_result, bytes_read) \
    F(warpbell_replay_result, bytes_written) F(warpbell_replay_result, left) \
    F(warpbell_replay_result, trims) F(warpbell_replay_result, blocks_trimmed)

#define WARPBELL_FIELDS_REPLAY_ARGS(F) \
    F(warpbell_replay_args, abi_version) F(warpbell_replay_args, size) F(warpbell_replay_args, ns) \
    F(warpbell_replay_args, buffer) F(warpbell_replay_args, mailbox) F(warpbell_replay_args, results) \
    F(warpbell_replay_args, totals) \
    F(warpbell_replay_args, histograms) F(warpbell_replay_args, commands) F(warpbell_replay_args, firsts) \
    F(warpbell_replay_args, timeout_ns) F(warpbell_replay_args, iodepth) \
    F(warpbell_replay_args, units_per_warp) F(warpbell_replay_args, unit_blocks) F(warpbell_replay_args, batch)

#define WARPBELL_FIELDS_LAB_ARGS(F) \
    F(warpbell_lab_args, abi_version) F(warpbell_lab_args, size) F(warpbell_lab_args, bench) \
    F(warpbell_lab_args, state) F(warpbell_lab_args, queue_words) F(warpbell_lab_args, warps)

#define WARPBELL_FIELDS_AGENT_COUNTS(F) \
    F(warpbell_agent_counts, requests) F(warpbell_agent_counts, batches) F(warpbell_agent_counts, refused)

#define WARPBELL_FIELDS_BENCH_AGENT_ARGS(F) \
    F(warpbell_bench_agent_args, abi_version) F(warpbell_bench_agent_args, size) \
    F(warpbell_bench_agent_args, bench) F(warpbell_bench_agent_args, request_queues) \
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

#define WARPBELL_FIELDS_BENCH_VOLUME_ARGS(F) \
    F(warpbell_bench_volume_args, abi_version) F(warpbell_bench_volume_args, size) \
    F(warpbell_bench_volume_args, bench) F(warpbell_bench_volume_args, volume) \
    F(warpbell_bench_volume_args, buffer)
/* clang-format on */

#define WARPBELL_BENCH_STRUCTS(S)                                                                            \
    S(warpbell_warp_result, WARPBELL_FIELDS_WARP_RESULT)                                                     \
    S(warpbell_bench_args, WARPBELL_FIELDS_BENCH_ARGS)                                                       \
    S(warpbell_unit_header, WARPBELL_FIELDS_UNIT_HEADER)                                                     \
    S(warpbell_chunk_result, WARPBELL_FIELDS_CHUNK_RESULT)                                                   \
    S(warpbell_digest_args, WARPBELL_FIELDS_DIGEST_ARGS)                                                     \
    S(warpbell_resident_queue, WARPBELL_FIELDS_RESIDENT_QUEUE)                                               \
    S(warpbell_resident_flight, WARPBELL_FIELDS_RESIDENT_FLIGHT)                                             \
    S(warpbell_resident_args, WARPBELL_FIELDS_RESIDENT_ARGS)                                                 \
    S(warpbell_gauge_result, WARPBELL_FIELDS_GAUGE_RESULT)                                                   \
    S(warpbell_gauge_args, WARPBELL_FIELDS_GAUGE_ARGS)                                                       \
    S(warpbell_replay_command, WARPBELL_FIELDS_REPLAY_COMMAND)                                               \
    S(warpbell_replay_result, WARPBELL_FIELDS_REPLAY_RESULT)                                                 \
    S(warpbell_replay_args, WARPBELL_FIELDS_REPLAY_ARGS)                                                     \
    S(warpbell_lab_args, WARPBELL_FIELDS_LAB_ARGS)                                                           \
    S(warpbell_agent_counts, WARPBELL_FIELDS_AGENT_COUNTS)                                                   \
    S(warpbell_bench_agent_args, WARPBELL_FIELDS_BENCH_AGENT_ARGS)                                           \
    S(warpbell_bench_batch_args, WARPBELL_FIELDS_BENCH_BATCH_ARGS)                                           \
    S(warpbell_bench_array_args, WARPBELL_FIELDS_BENCH_ARRAY_ARGS)                                           \
    S(warpbell_bench_volume_args, WARPBELL_FIELDS_BENCH_VOLUME_ARGS)

#ifdef __cplusplus
WARPBELL_BENCH_STRUCTS(WARPBELL_STRUCT_COMPLETE)
#endif

#endif
