/* Warpbell from C: files of file systems on SSDs that no kernel has mounted (docs/files.md). What warpbell.h
 * says of handles, errors, threads, ownership and options holds here too. Kernels include
 * <warpbell/file.cuh>, or <warpbell/file_cache.cuh> for a page cache over a file. Files are read, and never
 * written. Since version 8. */
#ifndef WARPBELL_FILE_H
#define WARPBELL_FILE_H

#include <warpbell/abi_file.h>
#include <warpbell/cache.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct warpbell_file warpbell_file;
typedef struct warpbell_file_table warpbell_file_table;

typedef struct warpbell_file_options {
    uint32_t api_version, size;
    const char* manifest; /* path of a manifest of `warpbell files capture`, in place of the file system;
                           * it has the partition, too. NULL: the file system on the SSD is read */
    const char*
        partition; /* the one with the file system: number, PARTUUID or label; NULL: the SSD has none */
    uint32_t nsid; /* 0: the first usable one */
    uint32_t allow_dirty; /* 1: reads a file system that was not unmounted, without what its journal has */
} warpbell_file_options;
#define WARPBELL_FILE_OPTIONS_INIT WARPBELL_INIT(warpbell_file_options)

/* The file at an absolute path of the file system. Waits: structures of the file system are read. WARPBELL_
 * ERROR_INVALID: the path leads to no file. WARPBELL_ERROR_REFUSED: what is not understood, by name, and a
 * manifest that is stale. */
WARPBELL_API warpbell_error warpbell_file_open(warpbell_ssd* ssd, const char* path,
                                               const warpbell_file_options* options, warpbell_file** file);
/* Tables of it stay. */
WARPBELL_API warpbell_error warpbell_file_close(warpbell_file* file);

typedef struct warpbell_file_info {
    uint32_t api_version, size;
    uint64_t bytes;
    uint64_t hole_bytes; /* of these: no block of the SSD has them, and they are zeroes */
    uint64_t extents;
    uint32_t nsid;
    uint32_t block_bytes; /* of the namespace */
} warpbell_file_info;
#define WARPBELL_FILE_INFO_INIT WARPBELL_INIT(warpbell_file_info)
WARPBELL_API warpbell_error warpbell_file_get_info(warpbell_file* file, warpbell_file_info* info);

/* Bytes of a file that lie together. */
typedef struct warpbell_file_part {
    uint32_t api_version, size;
    uint64_t offset; /* of the first one in the file */
    uint64_t at;     /* where it lies in the namespace, in bytes */
    uint64_t bytes;  /* whole blocks: the last extent may reach beyond the end of the file */
} warpbell_file_part;
#define WARPBELL_FILE_PART_INIT WARPBELL_INIT(warpbell_file_part)
/* Extent `index`, by offset, from 0 to extents - 1. */
WARPBELL_API warpbell_error warpbell_file_get_extent(warpbell_file* file, uint64_t index,
                                                     warpbell_file_part* extent);

/* Reads bytes of the file by the host's own queue. Any offset and length within the file. Waits. */
WARPBELL_API warpbell_error warpbell_file_read(warpbell_file* file, uint64_t offset, void* data,
                                               size_t bytes);

/* Where the file lies, in memory that kernels of these queues read. The queues must be of the namespace that
 * the file was found in: others are refused, and the message names both. Extents must be whole blocks. */
WARPBELL_API warpbell_error warpbell_queues_file(warpbell_queues* queues, warpbell_file* file,
                                                 warpbell_file_table** table);
/* Busy while a cache of it, or a run of its queues, is open. */
WARPBELL_API warpbell_error warpbell_file_table_close(warpbell_file_table* table);
/* The kernel argument that names the file for kernels over the table's queues, and no others. Valid until the
 * table is closed. */
WARPBELL_API warpbell_error warpbell_file_table_get_ref(warpbell_file_table* table, warpbell_file_ref* ref);
/* A page cache of the file, for `file_source`: page p is bytes [p * page_bytes, ..) of it; `first_block` of
 * the options counts blocks of the file. It is closed by warpbell_cache_close, and keeps the table open. */
WARPBELL_API warpbell_error warpbell_file_table_cache(warpbell_file_table* table,
                                                      const warpbell_cache_options* options,
                                                      warpbell_cache** cache);

#ifdef __cplusplus
}
#endif

#endif
