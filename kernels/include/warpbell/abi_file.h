/* What the host shares with kernels that read files (file.cuh). The rules of abi.h hold here too. */
#ifndef WARPBELL_ABI_FILE_H
#define WARPBELL_ABI_FILE_H

#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where blocks of a file lie together: one sector of a GPU's caches. */
typedef struct warpbell_file_extent {
    uint64_t first;  /* of its blocks in the file */
    uint64_t blocks; /* at least 1 */
    uint64_t lba;    /* of the first */
    uint64_t reserved;
} warpbell_file_extent;

/* A file: its extents in order, none overlapping. What no extent has is a hole, and reads as zeroes. Bucket i
 * is the blocks from i << bucket_shift on; the last extent that begins at one of them or before is one of
 * those from buckets[i] to buckets[i + 1]. Blocks behind the last bucket are searched as that one's. Kernels
 * read both arrays. */
typedef struct warpbell_file_ref {
    uint32_t abi_version, size;
    uint64_t extents; /* warpbell_file_extent[count], at a multiple of 32 bytes */
    uint64_t buckets; /* uint32_t[bucket_count + 1] */
    uint64_t bytes;   /* of the file; its last block may have more */
    uint32_t count;
    uint32_t block_shift;  /* of the namespace that it lies on */
    uint32_t bucket_count; /* at least 1 */
    uint32_t bucket_shift; /* below 64 */
} warpbell_file_ref;

#ifdef __cplusplus
}
#endif

#endif
