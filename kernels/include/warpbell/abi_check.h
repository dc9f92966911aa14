/* What the host shares with the kernels that try each call of the device library, `check_*`. The rules of
 * abi.h hold here too. */
#ifndef WARPBELL_ABI_CHECK_H
#define WARPBELL_ABI_CHECK_H

#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Blocks of the namespace, and of the buffer, that each warp has for itself. */
#define WARPBELL_CHECK_WARP_BLOCKS 256u

/* What one warp saw. Zero but for `done`: all is right. */
typedef struct warpbell_check_result {
    uint64_t done;   /* calls, of each lane, that were answered as they should be */
    uint64_t failed; /* that were not, */
    uint64_t wrong;  /* or that moved other data than they should have */
    uint32_t step;   /* the first of these in one of the lanes: its number in the kernel, */
    uint32_t status; /* and the answer */
} warpbell_check_result;

/* Kernels `check_*`: each warp makes the calls of one part of the library `rounds` times, writes contents of
 * its own, reads them and compares. A warp that has found something makes no more rounds. */
typedef struct warpbell_check_args {
    uint32_t abi_version, size;
    warpbell_namespace_ref ns;
    warpbell_buffer_ref buffer; /* WARPBELL_CHECK_WARP_BLOCKS blocks for each warp of the launch */
    uint64_t results;           /* warpbell_check_result[warps], zeroed */
    uint64_t stop;              /* uint32_t: ends the kernel once it is not 0 */
    uint64_t first_lba;         /* of warp 0; those of the others follow */
    uint64_t seed;
    uint32_t rounds;
    uint32_t pad0;
} warpbell_check_args;

#ifdef __cplusplus
}
#endif

#endif
