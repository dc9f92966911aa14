/* Wrong inputs over volume.h, cache.h and tiles.h: none may crash, under AddressSanitizer neither. */
#include "wrong.h"
#include <warpbell/cache.h>
#include <warpbell/tiles.h>
#include <warpbell/volume.h>

#define INVALID WARPBELL_ERROR_INVALID
#define HANDLE WARPBELL_ERROR_HANDLE

static warpbell_queues *one, *two, *shared, *again, *closed;

static warpbell_error create(warpbell_queues* first, warpbell_queues* second,
                             const warpbell_volume_options* chosen) {
    warpbell_queues* both[2];
    warpbell_volume* volume = (warpbell_volume*)1;
    warpbell_error error;
    both[0] = first, both[1] = second;
    error = warpbell_volume_create(both, 2, chosen, &volume);
    if (volume != NULL) {
        complain(__LINE__, "create", "a handle in spite of a failure");
    }
    return error;
}

static void volumes(void) {
    const warpbell_volume_options none = WARPBELL_VOLUME_OPTIONS_INIT;
    warpbell_volume_options chosen = none;
    warpbell_volume* volume;
    ROW(warpbell_volume_create(NULL, 2, NULL, &volume), INVALID, "queues", "NULL", "is");
    ROW(warpbell_volume_create(&one, 1, NULL, NULL), INVALID, "volume", "NULL", "is");
    ROW(warpbell_volume_create(&one, 0, NULL, &volume), INVALID, "count", "0", "1 to 32");
    ROW(warpbell_volume_create(&one, 33, NULL, &volume), INVALID, "count", "33", "1 to 32");
    ROW(warpbell_volume_create(&one, UINT32_MAX, NULL, &volume), INVALID, "count", "4294967295", "1 to 32");
    ROW(create(one, NULL, NULL), HANDLE, "queues", "NULL", "no handle");
    ROW(create(one, closed, NULL), HANDLE, "queues", "was closed", "before");
    ROW(create(one, one, NULL), INVALID, "SSDs of a volume", "soft:size=1m namespace 1",
        "name this one once");
    ROW(create(one, again, NULL), INVALID, "SSDs of a volume", "soft:size=1m", "another namespace");
    ROW(create(one, shared, NULL), INVALID, "sharing", "Shared", "must be Exclusive");
    chosen.layout = 3;
    ROW(create(one, two, &chosen), INVALID, "layout", "3", "WARPBELL_VOLUME_STRIPE");
    chosen = none, chosen.chunk_bytes = 1000;
    ROW(create(one, two, &chosen), INVALID, "chunk_bytes", "1000", "multiple of 512");
    chosen = none, chosen.chunk_bytes = 2u << 20;
    ROW(create(one, two, &chosen), INVALID, "chunk_bytes", "2097152", "at most its size, 1048576 bytes");
    chosen = none, chosen.pad0 = 1;
    ROW(create(one, two, &chosen), INVALID, "pad0", "1", "0");
    chosen = none, chosen.api_version = 2;
    ROW(create(one, two, &chosen), INVALID, "warpbell_volume_options", "api_version 2", "3 to 8");
    chosen = none, chosen.size = 4;
    ROW(create(one, two, &chosen), INVALID, "warpbell_volume_options", "size 4", "8 to 65536");
}

static const char* const SOURCE = "#include <warpbell/warpbell.cuh>\n"
                                  "struct nothing_args { uint64_t one, two; };\n"
                                  "WARPBELL_KERNEL(nothing, nothing_args) {}\n";

static void launches(warpbell_volume* volume) {
    uint64_t args[2] = {0, 0};
    warpbell_launch_options shape = WARPBELL_LAUNCH_OPTIONS_INIT;
    warpbell_program* program;
    warpbell_run* run;
    NEED(warpbell_program_compile("cpu", "nothing.cu", SOURCE, NULL, &program));
#define LAUNCH(kernel, over, memory, bytes)                                                                  \
    warpbell_volume_launch(program, kernel, over, memory, bytes, &shape, &run)
    ROW(LAUNCH(NULL, volume, args, 16), INVALID, "kernel", "NULL", "is");
    ROW(LAUNCH("other", volume, args, 16), INVALID, "kernel", "'other'", "nothing");
    ROW(LAUNCH("nothing", NULL, args, 16), HANDLE, "volume", "NULL", "no handle");
    ROW(LAUNCH("nothing", (warpbell_volume*)(void*)one, args, 16), HANDLE, "volume", "queues",
        "another kind");
    ROW(LAUNCH("nothing", volume, NULL, 16), INVALID, "args", "NULL", "is");
    ROW(LAUNCH("nothing", volume, args, 8), INVALID, "kernel nothing", "8 bytes", "takes 16");
    shape.block = 257;
    ROW(LAUNCH("nothing", volume, args, 16), INVALID, "block", "257", "256");
    shape.block = 0;
    ROW(warpbell_volume_launch(program, "nothing", volume, args, 16, NULL, NULL), INVALID, "run", "NULL",
        "is");
    NEED(warpbell_program_close(program));
    ROW(LAUNCH("nothing", volume, args, 16), HANDLE, "program", "was closed", "before");
#undef LAUNCH
}

static void over_a_volume(void) {
    warpbell_queues* both[2];
    warpbell_volume_info info = WARPBELL_VOLUME_INFO_INIT;
    warpbell_member_info member = WARPBELL_MEMBER_INFO_INIT;
    warpbell_volume_buffer_ref ref;
    warpbell_volume_buffer* buffer;
    warpbell_volume* volume;
    void* host;
    size_t bytes;
    both[0] = one, both[1] = two;
    NEED(warpbell_volume_create(both, 2, NULL, &volume));
    NEED(warpbell_volume_buffer_alloc(volume, 4096, &buffer));
    ROW(warpbell_volume_get_info(volume, NULL), INVALID, "warpbell_volume_info", "NULL", "is");
    info.size = 7;
    ROW(warpbell_volume_get_info(volume, &info), INVALID, "warpbell_volume_info", "size 7", "8 to 65536");
    ROW(warpbell_volume_get_member(volume, 2, &member), INVALID, "member", "2", "0 to 1");
    ROW(warpbell_volume_get_member(volume, 0, NULL), INVALID, "warpbell_member_info", "NULL", "is");
    ROW(warpbell_volume_get_ref(volume, NULL), INVALID, "ref", "NULL", "is");
    ROW(warpbell_volume_buffer_alloc(volume, 0, &buffer), INVALID, "bytes", "0", "at least 1");
    ROW(warpbell_volume_buffer_alloc(volume, SIZE_MAX, &buffer), INVALID, "memory length",
        "18446744073709551615", "from 1 to");
    ROW(warpbell_volume_buffer_alloc(volume, 4096, NULL), INVALID, "buffer", "NULL", "is");
    NEED(warpbell_volume_buffer_alloc(volume, 4096, &buffer));
    ROW(warpbell_volume_buffer_get_ref(buffer, NULL), INVALID, "ref", "NULL", "is");
    ROW(warpbell_volume_buffer_get_ref((warpbell_volume_buffer*)(void*)volume, &ref), HANDLE, "volume buffer",
        "volume", "another kind");
    ROW(warpbell_volume_buffer_get_host(buffer, NULL, &bytes), INVALID, "memory", "NULL", "is");
    ROW(warpbell_volume_buffer_get_host(buffer, &host, NULL), INVALID, "bytes", "NULL", "is");
    launches(volume);
    ROW(warpbell_queues_close(one), WARPBELL_ERROR_BUSY, "queues", "1", "warpbell_volume_close");
    NEED(warpbell_volume_close(volume));
    ROW(warpbell_volume_close(volume), HANDLE, "volume", "was closed", "before");
    ROW(warpbell_volume_buffer_alloc(volume, 1, &buffer), HANDLE, "volume", "was closed", "before");
    ROW(warpbell_volume_cache(volume, NULL, &(warpbell_cache*){NULL}), HANDLE, "volume", "was closed",
        "before");
}

static warpbell_error io_with(warpbell_volume* volume, const warpbell_volume_io_options* chosen) {
    warpbell_volume_io* io;
    return warpbell_volume_io_open(volume, chosen, &io);
}

static void host_io(const char* file) {
    const warpbell_volume_io_options none = WARPBELL_VOLUME_IO_OPTIONS_INIT;
    warpbell_volume_io_options chosen = none;
    warpbell_volume_io_end end = WARPBELL_VOLUME_IO_END_INIT;
    warpbell_queues *both[2], *guarded;
    warpbell_volume_buffer *buffer, *foreign;
    warpbell_volume *volume, *other;
    warpbell_volume_io* io;
    warpbell_ssd* ssd;
    char device[4200];
    uint64_t request;
    both[0] = one, both[1] = two;
    snprintf(device, sizeof(device), "soft:file=%s", file);
    NEED(warpbell_ssd_open(device, NULL, &ssd));
    NEED(warpbell_queues_attach(ssd, NULL, &guarded));
    NEED(warpbell_volume_create(both, 2, NULL, &volume));
    NEED(warpbell_volume_create(&guarded, 1, NULL, &other));
    NEED(warpbell_volume_buffer_alloc(volume, 4096, &buffer));
    NEED(warpbell_volume_buffer_alloc(other, 4096, &foreign));
    ROW(warpbell_volume_io_open(volume, NULL, NULL), INVALID, "io", "NULL", "is");
    chosen.depth = UINT32_MAX;
    ROW(io_with(volume, &chosen), INVALID, "depth", "4294967295", "must be at most");
    chosen = none, chosen.api_version = 1;
    ROW(io_with(volume, &chosen), INVALID, "warpbell_volume_io_options", "api_version 1", "3 to 8");
    chosen = none, chosen.write = 1;
    ROW(io_with(other, &chosen), WARPBELL_ERROR_REFUSED, "namespace 1", file, "allow_write");
    NEED(warpbell_volume_io_open(volume, NULL, &io));
#define READ(memory, at, first, blocks) warpbell_volume_io_read(io, memory, at, first, blocks, &request)
    ROW(READ(NULL, 0, 0, 1), HANDLE, "volume buffer", "NULL", "no handle");
    ROW(READ(foreign, 0, 0, 1), INVALID, "buffer", "0x", "one of the volume's");
    ROW(READ(buffer, 2, 0, 1), INVALID, "at", "2", "multiple of 4");
    ROW(READ(buffer, 0, 0, 9), INVALID, "at", "4608 bytes", "the buffer's 4096");
    ROW(READ(buffer, 0, 0, 0), INVALID, "blocks", "0", "at least 1");
    ROW(READ(buffer, 0, 4096, 1), INVALID, "first block", "4096 and 1", "the volume has 4096");
    ROW(READ(buffer, 0, UINT64_MAX, UINT64_MAX), INVALID, "first block", "18446744073709551615", "4096");
    ROW(warpbell_volume_io_read(io, buffer, 0, 0, 1, NULL), INVALID, "request", "NULL", "is");
    ROW(warpbell_volume_io_write(io, buffer, 0, 0, 1, &request), WARPBELL_ERROR_REFUSED, "volume", "reads",
        "allow writes");
    ROW(warpbell_volume_io_flush(io, NULL), INVALID, "request", "NULL", "is");
    ROW(warpbell_volume_io_next(io, 0, NULL), INVALID, "warpbell_volume_io_end", "NULL", "is");
    ROW(warpbell_volume_io_next(io, 0, &end), INVALID, "volume I/O", "no request", "in flight");
    NEED(READ(buffer, 0, 0, 8));
    end.size = 5;
    ROW(warpbell_volume_io_next(io, 0, &end), INVALID, "warpbell_volume_io_end", "size 5", "8 to 65536");
    end.size = sizeof(end);
    ROW(warpbell_volume_io_close(io), WARPBELL_ERROR_BUSY, "volume I/O", "1 requests",
        "warpbell_volume_io_next");
    NEED(warpbell_volume_io_next(io, UINT64_MAX, &end));
    NEED(warpbell_volume_io_close(io));
    ROW(READ(buffer, 0, 0, 8), HANDLE, "volume I/O", "was closed", "before");
#undef READ
    NEED(warpbell_volume_close(volume));
    NEED(warpbell_volume_close(other));
    NEED(warpbell_queues_close(guarded));
    NEED(warpbell_ssd_close(ssd));
}

static warpbell_error cache_with(const warpbell_cache_options* chosen) {
    warpbell_cache* cache;
    return warpbell_queues_cache(one, chosen, &cache);
}

static void caches(void) {
    const warpbell_cache_options none = WARPBELL_CACHE_OPTIONS_INIT;
    warpbell_cache_options chosen = none;
    warpbell_cache_counters counters = WARPBELL_CACHE_COUNTERS_INIT;
    warpbell_cache* cache;
    ROW(warpbell_queues_cache(NULL, NULL, &cache), HANDLE, "queues", "NULL", "no handle");
    ROW(warpbell_queues_cache(one, NULL, NULL), INVALID, "cache", "NULL", "is");
    chosen.page_bytes = 256;
    ROW(cache_with(&chosen), INVALID, "page", "256", "at least a block");
    chosen.page_bytes = 3000;
    ROW(cache_with(&chosen), INVALID, "page", "3000", "power of two");
    chosen = none, chosen.lines = UINT32_MAX;
    ROW(cache_with(&chosen), INVALID, "lines of a cache", "4294967295", "1 to 2^30");
    chosen = none, chosen.first_block = 2041;
    ROW(cache_with(&chosen), INVALID, "first_block", "2041", "a page of 8 blocks, of 2048");
    chosen = none, chosen.kept_first = 4;
    ROW(cache_with(&chosen), INVALID, "kept_first", "4", "kept_pages 0");
    chosen.kept_pages = UINT64_MAX;
    ROW(cache_with(&chosen), INVALID, "kept_pages", "18446744073709551615", "beyond the last");
    chosen = none, chosen.api_version = 99;
    ROW(cache_with(&chosen), INVALID, "warpbell_cache_options", "api_version 99", "3 to 8");
    NEED(warpbell_queues_cache(one, NULL, &cache));
    ROW(warpbell_cache_get_ref(cache, NULL), INVALID, "ref", "NULL", "is");
    ROW(warpbell_cache_get_info(cache, NULL), INVALID, "warpbell_cache_info", "NULL", "is");
    counters.size = 0;
    ROW(warpbell_cache_get_counters(cache, &counters), INVALID, "warpbell_cache_counters", "size 0",
        "8 to 65536");
    ROW(warpbell_queues_close(one), WARPBELL_ERROR_BUSY, "queues", "1", "warpbell_cache_close");
    NEED(warpbell_cache_close(cache));
    ROW(warpbell_cache_get_counters(cache, &counters), HANDLE, "cache", "was closed", "before");
    ROW(warpbell_cache_close((warpbell_cache*)(void*)one), HANDLE, "cache", "queues", "another kind");
}

static warpbell_error tiles_with(warpbell_tile tile, const warpbell_tiles_options* chosen) {
    const warpbell_tile order[2] = {{1, 0, 0, 4, 1}, tile};
    warpbell_tiles* tiles;
    return warpbell_queues_tiles(one, order, 2, chosen, &tiles);
}

static void schedules(void) {
    const warpbell_tile good = {2, 4, 0, 4, 1};
    const warpbell_tiles_options none = WARPBELL_TILES_OPTIONS_INIT;
    warpbell_tiles_options chosen = none;
    warpbell_tile tile = good;
    warpbell_tiles* tiles;
    uint32_t bytes;
    ROW(warpbell_queues_tiles(one, NULL, 2, NULL, &tiles), INVALID, "order", "NULL", "is");
    ROW(warpbell_queues_tiles(one, &good, SIZE_MAX, NULL, &tiles), INVALID, "order", "18446744073709551615",
        "at most");
    ROW(warpbell_queues_tiles(one, &good, 1, NULL, NULL), INVALID, "tiles", "NULL", "is");
    ROW(warpbell_queues_tiles(NULL, &good, 1, NULL, &tiles), HANDLE, "queues", "NULL", "no handle");
    tile.rows = 33;
    ROW(tiles_with(tile, NULL), INVALID, "tile", "33 rows", "1 to 32 rows");
    tile = good, tile.blocks = 0;
    ROW(tiles_with(tile, NULL), INVALID, "tile", "1 rows of 0 blocks", "at least a block");
    tile.blocks = 4096;
    ROW(tiles_with(tile, NULL), INVALID, "bytes of a tile", "2097152", "at most 1 MiB");
    tile = good, tile.number = 1;
    ROW(tiles_with(tile, NULL), INVALID, "tile", "1", "the same blocks wherever");
    chosen.slots = 33;
    ROW(tiles_with(good, &chosen), INVALID, "slots of a ring", "33", "1 to 32");
    chosen.slots = 1;
    ROW(tiles_with(good, &chosen), INVALID, "tiles loaded ahead", "1", "less than the 1 slots");
    chosen = none, chosen.size = 70000;
    ROW(tiles_with(good, &chosen), INVALID, "warpbell_tiles_options", "size 70000", "8 to 65536");
    chosen = none, chosen.slots = 1, chosen.ahead = WARPBELL_NONE;
    NEED(warpbell_queues_tiles(one, &good, 1, &chosen, &tiles));
    ROW(warpbell_tiles_get_ref(tiles, NULL), INVALID, "ref", "NULL", "is");
    ROW(warpbell_tiles_get_info(tiles, NULL), INVALID, "warpbell_tiles_info", "NULL", "is");
    ROW(warpbell_tiles_get_shared_bytes(tiles, 0, &bytes), INVALID, "stages", "0", "1 to 32");
    ROW(warpbell_tiles_get_shared_bytes(tiles, 33, &bytes), INVALID, "stages", "33", "1 to 32");
    ROW(warpbell_tiles_get_shared_bytes(tiles, 1, NULL), INVALID, "bytes", "NULL", "is");
    ROW(warpbell_queues_close(one), WARPBELL_ERROR_BUSY, "queues", "1", "warpbell_tiles_close");
    NEED(warpbell_tiles_close(tiles));
    ROW(warpbell_tiles_close(tiles), HANDLE, "tiles", "was closed", "before");
    ROW(warpbell_tiles_close((warpbell_tiles*)(void*)one), HANDLE, "tiles", "queues", "another kind");
}

int main(int argc, char** argv) {
    warpbell_attach_options chosen = WARPBELL_ATTACH_OPTIONS_INIT;
    warpbell_ssd *first, *second;
    if (argc != 2) {
        return 2;
    }
    NEED(warpbell_ssd_open("soft:size=1m", NULL, &first));
    NEED(warpbell_ssd_open("soft:size=1m", NULL, &second));
    NEED(warpbell_queues_attach(first, NULL, &one));
    NEED(warpbell_queues_attach(first, NULL, &again));
    NEED(warpbell_queues_attach(second, NULL, &two));
    NEED(warpbell_queues_attach(second, NULL, &closed));
    chosen.sharing = WARPBELL_SHARING_SHARED;
    NEED(warpbell_queues_attach(second, &chosen, &shared));
    NEED(warpbell_queues_close(closed));
    volumes();
    over_a_volume();
    host_io(argv[1]);
    caches();
    schedules();
    NEED(warpbell_queues_close(one));
    NEED(warpbell_queues_close(again));
    NEED(warpbell_queues_close(two));
    NEED(warpbell_queues_close(shared));
    NEED(warpbell_ssd_close(first));
    NEED(warpbell_ssd_close(second));
    printf("%d wrong inputs, %d answered wrongly\n", rows, failures);
    return failures == 0 ? 0 : 1;
}
