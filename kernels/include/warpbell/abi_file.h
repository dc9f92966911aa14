/* What the host shares with kernels that read files (file.cuh). The rules of abi.h hold here too. */
#ifndef WARPBELL_ABI_FILE_H
#define WARPBELL_ABI_FILE_H

#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where blocks of a file lie together. */
typedef struct warpbell_file_extent {
    uint64_t lba;
    uint64_t blocks; /* at least 1 */
} warpbell_file_extent;

/* A file: its extents in order, none overlapping. What no extent has is a hole, and reads as zeroes. Kernels
 * read both arrays; they search the first, so that it has nothing else. */
typedef struct warpbell_file_ref {
    uint32_t abi_version, size;
    uint64_t firsts;  /* uint64_t[count]: the first block of each extent in the file */
    uint64_t extents; /* warpbell_file_extent[count] */
    uint64_t bytes;   /* of the file; its last block may have more */
    uint32_t count;
    uint32_t block_shift; /* of the namespace that it lies on */
} warpbell_file_ref;

#ifdef __cplusplus
}
#endif

#endif
