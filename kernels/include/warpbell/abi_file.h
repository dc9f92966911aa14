/* What the host shares with kernels that read files (file.cuh). The rules of abi.h hold here too. */
#ifndef WARPBELL_ABI_FILE_H
#define WARPBELL_ABI_FILE_H

#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Blocks of a file that lie together. */
typedef struct warpbell_file_extent {
    uint64_t first;  /* block of the file */
    uint64_t lba;    /* where it lies */
    uint64_t blocks; /* at least 1 */
} warpbell_file_extent;

/* A file: its extents by `first`, none overlapping. What no extent has is a hole, and reads as zeroes. */
typedef struct warpbell_file_ref {
    uint32_t abi_version, size;
    uint64_t extents; /* warpbell_file_extent[count], readable by kernels */
    uint64_t bytes;   /* of the file; its last block may have more */
    uint32_t count;
    uint32_t block_shift; /* of the namespace that it lies on */
} warpbell_file_ref;

#ifdef __cplusplus
}
#endif

#endif
