/* Every field of every struct that kernels of tests share with their host, as in abi_table.h. */
#ifndef WARPBELL_ABI_CHECK_TABLE_H
#define WARPBELL_ABI_CHECK_TABLE_H

#include "abi_check.h"
#include <warpbell/abi_table.h>

/* Formatted by hand: clang-format finds no rest in them. */
/* clang-format off */
#define WARPBELL_FIELDS_TEST_RECORD(F) \
    F(warpbell_test_record, answers) F(warpbell_test_record, status) \
    F(warpbell_test_record, payload) F(warpbell_test_record, cid) F(warpbell_test_record, lba) \
    F(warpbell_test_record, found)

#define WARPBELL_FIELDS_QUEUE_TEST_ARGS(F) \
    F(warpbell_queue_test_args, abi_version) F(warpbell_queue_test_args, size) \
    F(warpbell_queue_test_args, ns) F(warpbell_queue_test_args, buffer) \
    F(warpbell_queue_test_args, mailbox) F(warpbell_queue_test_args, records) \
    F(warpbell_queue_test_args, results) F(warpbell_queue_test_args, seed) \
    F(warpbell_queue_test_args, timeout_ns) F(warpbell_queue_test_args, submit_timeout_ns) \
    F(warpbell_queue_test_args, commands) F(warpbell_queue_test_args, batch) \
    F(warpbell_queue_test_args, async_depth) F(warpbell_queue_test_args, mode) \
    F(warpbell_queue_test_args, flags) F(warpbell_queue_test_args, pad0)

#define WARPBELL_FIELDS_VOLUME_CHECK_RESULT(F) \
    F(warpbell_volume_check_result, units) F(warpbell_volume_check_result, wrong) \
    F(warpbell_volume_check_result, failed) F(warpbell_volume_check_result, status)

#define WARPBELL_FIELDS_VOLUME_CHECK_ARGS(F) \
    F(warpbell_volume_check_args, abi_version) F(warpbell_volume_check_args, size) \
    F(warpbell_volume_check_args, volume) F(warpbell_volume_check_args, buffer) \
    F(warpbell_volume_check_args, results) F(warpbell_volume_check_args, stop) \
    F(warpbell_volume_check_args, units) F(warpbell_volume_check_args, seed) \
    F(warpbell_volume_check_args, unit_blocks) F(warpbell_volume_check_args, writes)

#define WARPBELL_FIELDS_CHECK_RESULT(F) \
    F(warpbell_check_result, done) F(warpbell_check_result, failed) F(warpbell_check_result, wrong) \
    F(warpbell_check_result, step) F(warpbell_check_result, status)

#define WARPBELL_FIELDS_CHECK_ARGS(F) \
    F(warpbell_check_args, abi_version) F(warpbell_check_args, size) F(warpbell_check_args, ns) \
    F(warpbell_check_args, buffer) F(warpbell_check_args, results) F(warpbell_check_args, stop) \
    F(warpbell_check_args, first_lba) F(warpbell_check_args, seed) F(warpbell_check_args, rounds) \
    F(warpbell_check_args, pad0)

#define WARPBELL_FIELDS_STALE_CHECK_ARGS(F) \
    F(warpbell_stale_check_args, abi_version) F(warpbell_stale_check_args, size) \
    F(warpbell_stale_check_args, data) F(warpbell_stale_check_args, answer) \
    F(warpbell_stale_check_args, turn) F(warpbell_stale_check_args, seen) F(warpbell_stale_check_args, stop) \
    F(warpbell_stale_check_args, results) F(warpbell_stale_check_args, timeout_ns) \
    F(warpbell_stale_check_args, words) F(warpbell_stale_check_args, rounds)

#define WARPBELL_FIELDS_ATTACH_CHECK_ARGS(F) \
    F(warpbell_attach_check_args, abi_version) F(warpbell_attach_check_args, size) \
    F(warpbell_attach_check_args, queue) F(warpbell_attach_check_args, attached) \
    F(warpbell_attach_check_args, turn) F(warpbell_attach_check_args, begun) \
    F(warpbell_attach_check_args, looked) F(warpbell_attach_check_args, seen) \
    F(warpbell_attach_check_args, results) F(warpbell_attach_check_args, timeout_ns) \
    F(warpbell_attach_check_args, rounds) F(warpbell_attach_check_args, pad0)

#define WARPBELL_FIELDS_PORT_CHECK_ARGS(F) \
    F(warpbell_port_check_args, abi_version) F(warpbell_port_check_args, size) \
    F(warpbell_port_check_args, words) F(warpbell_port_check_args, results) \
    F(warpbell_port_check_args, timeout_ns) F(warpbell_port_check_args, rounds) \
    F(warpbell_port_check_args, pad0)
/* clang-format on */

#define WARPBELL_CHECK_STRUCTS(S)                                                                            \
    S(warpbell_test_record, WARPBELL_FIELDS_TEST_RECORD)                                                     \
    S(warpbell_queue_test_args, WARPBELL_FIELDS_QUEUE_TEST_ARGS)                                             \
    S(warpbell_volume_check_result, WARPBELL_FIELDS_VOLUME_CHECK_RESULT)                                     \
    S(warpbell_volume_check_args, WARPBELL_FIELDS_VOLUME_CHECK_ARGS)                                         \
    S(warpbell_check_result, WARPBELL_FIELDS_CHECK_RESULT)                                                   \
    S(warpbell_check_args, WARPBELL_FIELDS_CHECK_ARGS)                                                       \
    S(warpbell_stale_check_args, WARPBELL_FIELDS_STALE_CHECK_ARGS)                                           \
    S(warpbell_attach_check_args, WARPBELL_FIELDS_ATTACH_CHECK_ARGS)                                         \
    S(warpbell_port_check_args, WARPBELL_FIELDS_PORT_CHECK_ARGS)

#ifdef __cplusplus
WARPBELL_CHECK_STRUCTS(WARPBELL_STRUCT_COMPLETE)
#endif

#endif
