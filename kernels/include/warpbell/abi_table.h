/* Every field of every struct of abi.h, so that mirrors in other languages can be checked against what
 * this compiler made of them. The static assertions prove that the list is complete: the fields' sizes
 * add up to the struct's, which also means that no padding is implicit. */
#ifndef WARPBELL_ABI_TABLE_H
#define WARPBELL_ABI_TABLE_H

#include "abi.h"

/* F(struct, field) for each field of one struct. Formatted by hand: clang-format finds no rest in them. */
/* clang-format off */
#define WARPBELL_FIELDS_QUEUE_STATE(F) \
    F(warpbell_queue_state, abi_version) F(warpbell_queue_state, size) \
    F(warpbell_queue_state, sqhd_mismatch) F(warpbell_queue_state, shadow_stride) \
    F(warpbell_queue_state, shadow) F(warpbell_queue_state, events) F(warpbell_queue_state, pad0) \
    F(warpbell_queue_state, spurious) F(warpbell_queue_state, late) F(warpbell_queue_state, ticket) \
    F(warpbell_queue_state, pad1) F(warpbell_queue_state, turn) F(warpbell_queue_state, rung) F(warpbell_queue_state, pad2) \
    F(warpbell_queue_state, reap) F(warpbell_queue_state, pad3) F(warpbell_queue_state, head) \
    F(warpbell_queue_state, pad4) F(warpbell_queue_state, exclusive_tail) \
    F(warpbell_queue_state, exclusive_head) F(warpbell_queue_state, exclusive_told) \
    F(warpbell_queue_state, pad5)

#define WARPBELL_FIELDS_QUEUE_HOST(F) \
    F(warpbell_queue_host, abi_version) F(warpbell_queue_host, size) F(warpbell_queue_host, state) \
    F(warpbell_queue_host, alarm) F(warpbell_queue_host, quarantine) F(warpbell_queue_host, pad)

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
    F(warpbell_namespace_ref, page_shift) F(warpbell_namespace_ref, flags)

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
    F(warpbell_warp_result, start_ns) F(warpbell_warp_result, end_ns) F(warpbell_warp_result, pad)

#define WARPBELL_FIELDS_BENCH_ARGS(F) \
    F(warpbell_bench_args, abi_version) F(warpbell_bench_args, size) F(warpbell_bench_args, ns) \
    F(warpbell_bench_args, buffer) F(warpbell_bench_args, mailbox) F(warpbell_bench_args, results) \
    F(warpbell_bench_args, histograms) F(warpbell_bench_args, crc_tables) \
    F(warpbell_bench_args, first_lba) F(warpbell_bench_args, units) F(warpbell_bench_args, seed) \
    F(warpbell_bench_args, io_limit) F(warpbell_bench_args, runtime_ns) \
    F(warpbell_bench_args, deadline_ns) F(warpbell_bench_args, blocks_per_io) \
    F(warpbell_bench_args, iodepth) F(warpbell_bench_args, units_per_warp) \
    F(warpbell_bench_args, batch) F(warpbell_bench_args, read_percent) \
    F(warpbell_bench_args, pattern) F(warpbell_bench_args, api) F(warpbell_bench_args, verify)

#define WARPBELL_FIELDS_UNIT_HEADER(F) \
    F(warpbell_unit_header, magic) F(warpbell_unit_header, lba) F(warpbell_unit_header, seed) \
    F(warpbell_unit_header, payload_crc32c) F(warpbell_unit_header, bytes)

#define WARPBELL_FIELDS_VERIFY_ARGS(F) \
    F(warpbell_verify_args, abi_version) F(warpbell_verify_args, size) F(warpbell_verify_args, ns) \
    F(warpbell_verify_args, buffer) F(warpbell_verify_args, mailbox) \
    F(warpbell_verify_args, results) F(warpbell_verify_args, crc_tables) \
    F(warpbell_verify_args, first_lba) F(warpbell_verify_args, units) F(warpbell_verify_args, seed) \
    F(warpbell_verify_args, deadline_ns) F(warpbell_verify_args, blocks_per_io) \
    F(warpbell_verify_args, mode)

#define WARPBELL_FIELDS_CHUNK_RESULT(F) \
    F(warpbell_chunk_result, crc32c) F(warpbell_chunk_result, status)

#define WARPBELL_FIELDS_DIGEST_ARGS(F) \
    F(warpbell_digest_args, abi_version) F(warpbell_digest_args, size) F(warpbell_digest_args, ns) \
    F(warpbell_digest_args, buffer) F(warpbell_digest_args, mailbox) \
    F(warpbell_digest_args, results) F(warpbell_digest_args, chunks) \
    F(warpbell_digest_args, crc_tables) F(warpbell_digest_args, first_lba) \
    F(warpbell_digest_args, bytes) F(warpbell_digest_args, deadline_ns) \
    F(warpbell_digest_args, chunk_blocks) F(warpbell_digest_args, pad0)

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

#define WARPBELL_FIELDS_PROBE_ARGS(F) \
    F(warpbell_probe_args, abi_version) F(warpbell_probe_args, size) F(warpbell_probe_args, queue) \
    F(warpbell_probe_args, iova) F(warpbell_probe_args, token) F(warpbell_probe_args, out) \
    F(warpbell_probe_args, nsid) F(warpbell_probe_args, blocks)

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
    S(warpbell_verify_args, WARPBELL_FIELDS_VERIFY_ARGS)                                                     \
    S(warpbell_chunk_result, WARPBELL_FIELDS_CHUNK_RESULT)                                                   \
    S(warpbell_digest_args, WARPBELL_FIELDS_DIGEST_ARGS)                                                     \
    S(warpbell_test_record, WARPBELL_FIELDS_TEST_RECORD)                                                     \
    S(warpbell_queue_test_args, WARPBELL_FIELDS_QUEUE_TEST_ARGS)                                             \
    S(warpbell_probe_args, WARPBELL_FIELDS_PROBE_ARGS)

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
