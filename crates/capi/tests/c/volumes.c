/* Volumes, page caches and schedules of tiles: kernels use them, and what is in use is not closed. */
#include "expect.h"
#include <warpbell/cache.h>
#include <warpbell/tiles.h>
#include <warpbell/volume.h>

static const char* const SOURCE =
    "#include <warpbell/array.cuh>\n"
    "#include <warpbell/stream.cuh>\n"
    "#include <warpbell/warpbell.cuh>\n"
    "using namespace warpbell;\n"
    "struct numbers_args { warpbell_volume_ref volume; warpbell_volume_buffer_ref buffer; uint64_t base; };\n"
    "WARPBELL_KERNEL(numbers, numbers_args) { /* lane i writes block i, and reads it again */\n"
    "    volume<sharing::shared, 4> v(this_warp(), args.volume, 0);\n"
    "    const volume_span mine = volume_span(args.buffer).subspan(port::lane() * 512u, 512);\n"
    "    for (int i = 0; i < 64; ++i) { mine.data<uint64_t>()[i] = args.base + port::lane(); }\n"
    "    const extent where{lba(port::lane()), 1};\n"
    "    status s = write_each(this_warp(), v, where, mine);\n"
    "    mine.data<uint64_t>()[0] = 0;\n"
    "    s = s.ok() ? read_each(this_warp(), v, where, mine) : s;\n"
    "    if (!s.ok()) { mine.data<uint64_t>()[0] = s.bits; }\n"
    "    v.detach(this_warp());\n"
    "}\n"
    "struct cached_args { warpbell_namespace_ref ns; warpbell_buffer_ref pages; warpbell_cache_ref cache;\n"
    "    uint64_t count, sums; };\n"
    "WARPBELL_KERNEL(sum_cached, cached_args) {\n"
    "    const warpbell_buffer_ref memory = args.pages;\n"
    "    session<sharing::shared> ssd(this_warp(), args.ns, 0);\n"
    "    page_cache<session<sharing::shared>> pages(this_warp(), args.cache, ssd, dma_span(memory));\n"
    "    array_view<uint64_t, decltype(pages)> x(pages, 0, args.count);\n"
    "    uint64_t sum = 0;\n"
    "    for (uint64_t i = 0; i < args.count; i += 32u) { sum += x[i + port::lane()]; }\n"
    "    reinterpret_cast<uint64_t*>(args.sums)[port::lane()] = sum;\n"
    "    pages.detach(this_warp());\n"
    "    ssd.detach(this_warp());\n"
    "}\n"
    "struct stored_args { warpbell_volume_ref volume; warpbell_volume_buffer_ref pages; warpbell_cache_ref "
    "cache; };\n"
    "WARPBELL_KERNEL(store_cached, stored_args) { /* adds 1 to the first word of block i of the volume */\n"
    "    const volume_span memory(args.pages);\n"
    "    volume<sharing::shared, 4> v(this_warp(), args.volume, 0);\n"
    "    page_cache<decltype(v)> pages(this_warp(), args.cache, v, memory);\n"
    "    array_view<uint64_t, decltype(pages)> x(pages, 0, 32 * 64);\n"
    "    x.atomic_add(this_warp(), port::lane() * 64u, 1u);\n"
    "    (void)pages.flush(this_warp());\n"
    "    pages.detach(this_warp());\n"
    "    v.detach(this_warp());\n"
    "}\n"
    "struct tiled_args { warpbell_namespace_ref ns; warpbell_buffer_ref ring; warpbell_schedule_ref "
    "schedule;\n"
    "    uint64_t sums; };\n"
    "WARPBELL_KERNEL(sum_tiles, tiled_args) {\n"
    "    const this_block_t block = this_block();\n"
    "    const warpbell_buffer_ref ring = args.ring;\n"
    "    session<sharing::shared> ssd(this_warp(), args.ns, 0);\n"
    "    tile_stream<decltype(ssd), 2, 2> tiles(block, listed_tiles(args.schedule), ssd, dma_span(ring),\n"
    "        port::block_memory());\n"
    "    uint64_t sum = 0;\n"
    "    const status all = tiles.for_each(block, [&](const stream_tile& tile) {\n"
    "        for (uint32_t i = block.thread_rank(); tile && i < tile.bytes() / 8; i += block.size()) {\n"
    "            sum += tile.data<uint64_t>()[i];\n"
    "        }\n"
    "    });\n"
    "    const status left = tiles.detach(block);\n"
    "    reinterpret_cast<uint64_t*>(args.sums)[block.thread_rank()] = all.ok() && left.ok() ? sum : 0;\n"
    "    ssd.detach(this_warp());\n"
    "}\n"
    "struct stop_args { uint64_t mailbox; };\n"
    "WARPBELL_KERNEL(wait_for_stop, stop_args) {\n"
    "    while (port::load_relaxed_sys(&reinterpret_cast<warpbell_mailbox*>(args.mailbox)->stop) == 0)\n"
    "        port::pause();\n"
    "}\n";

static warpbell_ssd* ssds[3];
static warpbell_queues* queues[3];
static warpbell_program* program;

struct numbers_args {
    warpbell_volume_ref volume;
    warpbell_volume_buffer_ref buffer;
    uint64_t base;
};

static void done(warpbell_run* run) {
    OK(warpbell_run_wait(run, UINT64_C(60000000000)));
    OK(warpbell_run_close(run));
}

static uint64_t word(warpbell_ssd* ssd, uint64_t lba) {
    uint64_t block[64];
    OK(warpbell_ssd_read(ssd, 0, lba, block, sizeof(block)));
    return block[0];
}

static warpbell_volume* make(uint32_t count, uint32_t layout, uint64_t chunk) {
    warpbell_volume_options chosen = WARPBELL_VOLUME_OPTIONS_INIT;
    warpbell_volume* volume;
    chosen.layout = layout;
    chosen.chunk_bytes = chunk;
    OK(warpbell_volume_create(queues, count, &chosen, &volume));
    return volume;
}

/* The kernel writes and reads 32 blocks: what it found, and what each SSD has. */
static void write_numbers_in(warpbell_volume* volume, warpbell_volume_buffer* buffer, uint64_t base) {
    struct numbers_args args;
    warpbell_run* run;
    void* host;
    size_t bytes;
    uint64_t lane;
    OK(warpbell_volume_buffer_get_host(buffer, &host, &bytes));
    THAT(bytes >= 32 * 512);
    memset(&args, 0, sizeof(args));
    args.base = base;
    OK(warpbell_volume_get_ref(volume, &args.volume));
    OK(warpbell_volume_buffer_get_ref(buffer, &args.buffer));
    OK(warpbell_volume_launch(program, "numbers", volume, &args, sizeof(args), NULL, &run));
    done(run);
    for (lane = 0; lane < 32; ++lane) {
        THAT(((uint64_t*)host)[lane * 64] == base + lane);
    }
}

static void write_numbers(warpbell_volume* volume, uint64_t base) {
    warpbell_volume_buffer* buffer;
    OK(warpbell_volume_buffer_alloc(volume, 32 * 512, &buffer));
    write_numbers_in(volume, buffer, base);
}

static void striped(void) {
    warpbell_volume* volume = make(2, WARPBELL_VOLUME_STRIPE, 1024);
    warpbell_volume_info info = WARPBELL_VOLUME_INFO_INIT;
    warpbell_member_info member = WARPBELL_MEMBER_INFO_INIT;
    warpbell_volume_buffer* gone;
    warpbell_volume_buffer_ref ref;
    OK(warpbell_volume_get_info(volume, &info));
    THAT(info.blocks == 4096 && info.block_bytes == 512 && info.members == 2 && info.chunk_bytes == 1024);
    THAT(info.layout == WARPBELL_VOLUME_STRIPE && info.size == sizeof(info));
    write_numbers(volume, 1000);
    /* Chunks of two blocks, in turn. */
    THAT(word(ssds[0], 0) == 1000 && word(ssds[0], 1) == 1001 && word(ssds[1], 0) == 1002);
    THAT(word(ssds[0], 2) == 1004 && word(ssds[1], 15) == 1031 && word(ssds[1], 16) == 0);
    OK(warpbell_volume_get_member(volume, 1, &member));
    THAT(member.bytes_written == 16 * 512 && member.bytes_read == 16 * 512 && member.errors == 0);
    THAT(member.present == 1 && member.avoided == 0 && strcmp(member.name, "soft:size=1m") == 0);
    FAILS(warpbell_queues_close(queues[1]), WARPBELL_ERROR_BUSY, "warpbell_volume_close");
    OK(warpbell_volume_buffer_alloc(volume, 512, &gone));
    OK(warpbell_volume_close(volume));
    FAILS(warpbell_volume_buffer_get_ref(gone, &ref), WARPBELL_ERROR_HANDLE,
          "volume buffer: handle 2 was closed before");
    FAILS(warpbell_volume_close(volume), WARPBELL_ERROR_HANDLE, "volume: handle 1 was closed before");
}

static void replicated_and_concatenated(void) {
    warpbell_volume_options chosen = WARPBELL_VOLUME_OPTIONS_INIT;
    const uint32_t distances[] = {2, 1, 3};
    warpbell_volume_info info = WARPBELL_VOLUME_INFO_INIT;
    warpbell_volume* volume;
    int i;
    chosen.layout = WARPBELL_VOLUME_REPLICATE;
    chosen.distances = distances;
    OK(warpbell_volume_create(queues, 3, &chosen, &volume));
    OK(warpbell_volume_get_info(volume, &info));
    THAT(info.blocks == 2048 && info.members == 3 && info.chunk_bytes == 131072);
    write_numbers(volume, 2000);
    for (i = 0; i < 3; ++i) {
        THAT(word(ssds[i], 0) == 2000 && word(ssds[i], 31) == 2031);
    }
    OK(warpbell_volume_close(volume));
    volume = make(3, WARPBELL_VOLUME_CONCATENATE, 512);
    OK(warpbell_volume_get_info(volume, &info));
    THAT(info.blocks == 3 * 2048);
    write_numbers(volume, 3000);
    THAT(word(ssds[0], 31) == 3031 && word(ssds[1], 0) == 2000);
    OK(warpbell_volume_close(volume));
}

/* The host reads what kernels wrote, by requests in flight at once, and the other way. */
static void by_the_host(void) {
    warpbell_volume* volume = make(2, WARPBELL_VOLUME_STRIPE, 1024);
    warpbell_volume_io_options chosen = WARPBELL_VOLUME_IO_OPTIONS_INIT;
    warpbell_volume_io_end end = WARPBELL_VOLUME_IO_END_INIT;
    warpbell_volume_io* io;
    warpbell_volume_buffer* buffer;
    uint64_t requests[32], *host, seen = 0, i;
    void* memory;
    size_t bytes;
    write_numbers(volume, 4000);
    chosen.write = 1, chosen.depth = 4;
    OK(warpbell_volume_io_open(volume, &chosen, &io));
    OK(warpbell_volume_buffer_alloc(volume, 32 * 512, &buffer));
    OK(warpbell_volume_buffer_get_host(buffer, &memory, &bytes));
    host = (uint64_t*)memory;
    FAILS(warpbell_volume_io_next(io, 0, &end), WARPBELL_ERROR_INVALID, "no request is in flight");
    for (i = 0; i < 32; ++i) {
        OK(warpbell_volume_io_read(io, buffer, i * 512, 31 - i, 1, &requests[i]));
        THAT(requests[i] == i + 1);
    }
    FAILS(warpbell_volume_io_close(io), WARPBELL_ERROR_BUSY, "32 requests");
    for (i = 0; i < 32; ++i) {
        OK(warpbell_volume_io_next(io, UINT64_C(60000000000), &end));
        THAT(end.error == WARPBELL_OK && end.text[0] == 0 && end.size == sizeof(end));
        seen |= UINT64_C(1) << (end.request - 1);
    }
    THAT(seen == UINT32_MAX);
    for (i = 0; i < 32; ++i) {
        THAT(host[i * 64] == 4000 + 31 - i);
        host[i * 64] = 4100 + i;
    }
    OK(warpbell_volume_io_write(io, buffer, 0, 0, 32, &requests[0]));
    OK(warpbell_volume_io_flush(io, &requests[1]));
    OK(warpbell_volume_io_next(io, UINT64_MAX, &end));
    THAT(end.error == WARPBELL_OK);
    OK(warpbell_volume_io_next(io, UINT64_MAX, &end));
    THAT(end.error == WARPBELL_OK);
    THAT(word(ssds[0], 0) == 4100 && word(ssds[1], 0) == 4102 && word(ssds[1], 15) == 4131);
    FAILS(warpbell_volume_close(volume), WARPBELL_ERROR_BUSY, "warpbell_volume_io_close");
    OK(warpbell_volume_io_close(io));
    FAILS(warpbell_volume_io_close(io), WARPBELL_ERROR_HANDLE, "volume I/O: handle 1 was closed before");
    OK(warpbell_volume_close(volume));
}

static warpbell_volume_io_end finish(warpbell_volume_io* io, uint64_t request) {
    warpbell_volume_io_end end = WARPBELL_VOLUME_IO_END_INIT;
    OK(warpbell_volume_io_next(io, UINT64_MAX, &end));
    THAT(end.request == request);
    return end;
}

/* Writes and reads 16 blocks of as many of these SSDs as replicas: how the read ended. */
static warpbell_volume_io_end replicas(warpbell_queues* const* members, uint32_t count, uint64_t* host_word) {
    warpbell_volume_options shape = WARPBELL_VOLUME_OPTIONS_INIT;
    warpbell_volume_io_options chosen = WARPBELL_VOLUME_IO_OPTIONS_INIT;
    warpbell_volume_io_end end;
    warpbell_volume_buffer* buffer;
    warpbell_volume_io* io;
    warpbell_volume* volume;
    uint64_t request;
    void* memory;
    size_t bytes;
    chosen.write = 1;
    shape.layout = WARPBELL_VOLUME_REPLICATE, shape.chunk_bytes = 2048;
    OK(warpbell_volume_create(members, count, &shape, &volume));
    OK(warpbell_volume_io_open(volume, &chosen, &io));
    OK(warpbell_volume_buffer_alloc(volume, 8192, &buffer));
    OK(warpbell_volume_buffer_get_host(buffer, &memory, &bytes));
    memset(memory, 0x5a, 8192);
    OK(warpbell_volume_io_write(io, buffer, 0, 0, 16, &request));
    THAT(finish(io, request).error == WARPBELL_OK);
    memset(memory, 0, 8192);
    OK(warpbell_volume_io_read(io, buffer, 0, 0, 16, &request));
    end = finish(io, request);
    *host_word = ((uint64_t*)memory)[600];
    OK(warpbell_volume_io_close(io));
    OK(warpbell_volume_close(volume));
    return end;
}

/* Memory of the program's, between others' bytes, for kernels and for I/O by the host. */
static void registered(void) {
    static uint64_t memory[33 * 64];
    warpbell_volume_io_options chosen = WARPBELL_VOLUME_IO_OPTIONS_INIT;
    warpbell_volume* volume = make(2, WARPBELL_VOLUME_STRIPE, 2048);
    warpbell_volume_buffer* buffer;
    warpbell_volume_io* io;
    uint64_t request, i, *mine = memory + 5;
    chosen.write = 1;
    memset(memory, 0xaa, sizeof(memory));
    FAILS(warpbell_volume_buffer_register(volume, (char*)memory + 2, 512, &buffer), WARPBELL_ERROR_INVALID,
          "must be a multiple of 4");
    OK(warpbell_volume_buffer_register(volume, mine, 16 * 512, &buffer));
    OK(warpbell_volume_io_open(volume, &chosen, &io));
    for (i = 0; i < 16 * 64; ++i)
        mine[i] = i + 7;
    OK(warpbell_volume_io_write(io, buffer, 0, 32, 16, &request));
    THAT(finish(io, request).error == WARPBELL_OK);
    memset(mine, 0, 16 * 512);
    OK(warpbell_volume_io_read(io, buffer, 512, 33, 15, &request));
    THAT(finish(io, request).error == WARPBELL_OK);
    THAT(mine[63] == 0 && mine[64] == 64 + 7 && mine[16 * 64 - 1] == 16 * 64 + 6);
    THAT(memory[4] == UINT64_C(0xaaaaaaaaaaaaaaaa) && memory[5 + 16 * 64] == memory[4]);
    OK(warpbell_volume_io_close(io));
    OK(warpbell_volume_buffer_close(buffer));
    FAILS(warpbell_volume_buffer_close(buffer), WARPBELL_ERROR_HANDLE, "was closed before");
    OK(warpbell_volume_buffer_register(volume, memory + 1, 32 * 512, &buffer));
    write_numbers_in(volume, buffer, 700);
    OK(warpbell_volume_buffer_close(buffer));
    OK(warpbell_volume_close(volume));
}

/* An SSD that cannot read its blocks 8 to 15, as a replica and by itself. */
static void faults(const char* plan) {
    warpbell_attach_options wanted = WARPBELL_ATTACH_OPTIONS_INIT;
    warpbell_volume_io_end end;
    warpbell_queues* both[2];
    warpbell_ssd* bad;
    char device[4200];
    uint64_t seen;
    snprintf(device, sizeof(device), "soft:size=1m,faults=%s", plan);
    wanted.sharing = WARPBELL_SHARING_SHARED;
    OK(warpbell_ssd_open(device, NULL, &bad));
    OK(warpbell_queues_attach(bad, &wanted, &both[0]));
    both[1] = queues[1];
    end = replicas(both, 2, &seen);
    THAT(end.error == WARPBELL_OK && seen == UINT64_C(0x5a5a5a5a5a5a5a5a));
    end = replicas(both, 1, &seen);
    THAT(end.error == WARPBELL_ERROR_COMMAND && seen == 0);
    THAT(strncmp(end.text, "SSD soft:size=1m,faults=", 24) == 0);
    THAT(strstr(end.text, "Unrecovered Read Error") != NULL);
    OK(warpbell_queues_close(both[0]));
    OK(warpbell_ssd_close(bad));
}

/* What runs is busy, and stops by the mailbox of the first queues. */
static void running(void) {
    warpbell_volume* volume = make(2, WARPBELL_VOLUME_STRIPE, 0);
    warpbell_run* run;
    uint64_t mailbox;
    OK(warpbell_queues_get_mailbox(queues[0], &mailbox));
    OK(warpbell_volume_launch(program, "wait_for_stop", volume, &mailbox, sizeof(mailbox), NULL, &run));
    FAILS(warpbell_run_wait(run, 1000000), WARPBELL_ERROR_TIMEOUT, "wait_for_stop still runs");
    FAILS(warpbell_volume_close(volume), WARPBELL_ERROR_BUSY, "volume: still in use, 1 open: close each run");
    FAILS(warpbell_queues_close(queues[1]), WARPBELL_ERROR_BUSY, "close each run first");
    OK(warpbell_queues_stop(queues[0]));
    done(run);
    /* A run of the queues alone may have the volume's reference too. */
    OK(warpbell_launch(program, "wait_for_stop", queues[0], &mailbox, sizeof(mailbox), NULL, &run));
    FAILS(warpbell_volume_close(volume), WARPBELL_ERROR_BUSY, "queues: still in use, 1 open");
    OK(warpbell_queues_stop(queues[0]));
    done(run);
    OK(warpbell_volume_close(volume));
}

struct cached_args {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref pages;
    warpbell_cache_ref cache;
    uint64_t count, sums;
};

static void cached(void) {
    static uint64_t data[2048];
    struct cached_args args;
    warpbell_cache_options chosen = WARPBELL_CACHE_OPTIONS_INIT;
    warpbell_cache_info info = WARPBELL_CACHE_INFO_INIT;
    warpbell_cache_counters counted = WARPBELL_CACHE_COUNTERS_INIT;
    warpbell_buffer *pages, *sums;
    warpbell_buffer_ref ref;
    warpbell_cache* cache;
    warpbell_run* run;
    void* host;
    size_t bytes;
    uint64_t i, sum = 0;
    for (i = 0; i < 2048; ++i) {
        data[i] = i * 3 + 1, sum -= data[i];
    }
    OK(warpbell_ssd_write(ssds[2], 0, 0, data, sizeof(data)));
    chosen.page_bytes = 2048;
    chosen.lines = 16;
    OK(warpbell_queues_cache(queues[2], &chosen, &cache));
    OK(warpbell_cache_get_info(cache, &info));
    THAT(info.pages == 512 && info.buffer_bytes == 16 * 2048 && info.page_bytes == 2048 && info.lines == 16);
    OK(warpbell_buffer_alloc(queues[2], info.buffer_bytes, &pages));
    OK(warpbell_buffer_alloc(queues[2], 32 * 8, &sums));
    OK(warpbell_buffer_get_host(sums, &host, &bytes));
    OK(warpbell_queues_get_namespace_ref(queues[2], &args.ns));
    OK(warpbell_buffer_get_ref(pages, &args.pages));
    OK(warpbell_cache_get_ref(cache, &args.cache));
    OK(warpbell_buffer_get_ref(sums, &ref));
    args.count = 2048, args.sums = ref.data;
    /* 8 pages, read once: the second kernel finds all of them. */
    for (i = 0; i < 2; ++i) {
        OK(warpbell_launch(program, "sum_cached", queues[2], &args, sizeof(args), NULL, &run));
        OK(warpbell_run_wait(run, UINT64_C(60000000000)));
        FAILS(warpbell_cache_close(cache), WARPBELL_ERROR_BUSY, "close each run first");
        OK(warpbell_run_close(run));
        OK(warpbell_cache_get_counters(cache, &counted));
        THAT(counted.misses == 8 && counted.hits == 56 + i * 64 && counted.write_backs == 0);
        THAT(counted.error_status == 0 && counted.prefetched == 0);
    }
    for (i = 0; i < 32; ++i) {
        sum += ((uint64_t*)host)[i];
    }
    THAT(sum == 0);
    FAILS(warpbell_queues_close(queues[2]), WARPBELL_ERROR_BUSY, "warpbell_cache_close");
    OK(warpbell_cache_close(cache));
    FAILS(warpbell_cache_close(cache), WARPBELL_ERROR_HANDLE, "cache: handle 1 was closed before");
}

/* Words of a volume, changed through a cache of it, and flushed by the kernel. */
static void cached_volume(void) {
    struct {
        warpbell_volume_ref volume;
        warpbell_volume_buffer_ref pages;
        warpbell_cache_ref cache;
    } args;
    warpbell_volume* volume = make(2, WARPBELL_VOLUME_STRIPE, 512);
    warpbell_cache_options chosen = WARPBELL_CACHE_OPTIONS_INIT;
    warpbell_cache_info info = WARPBELL_CACHE_INFO_INIT;
    warpbell_cache_counters counted = WARPBELL_CACHE_COUNTERS_INIT;
    warpbell_volume_buffer* pages;
    warpbell_cache* cache;
    warpbell_run* run;
    write_numbers(volume, 5000);
    chosen.lines = 4, chosen.page_bytes = 1024, chosen.kept_pages = 2;
    OK(warpbell_volume_cache(volume, &chosen, &cache));
    OK(warpbell_cache_get_info(cache, &info));
    THAT(info.pages == 2048 && info.buffer_bytes == 4096);
    OK(warpbell_volume_buffer_alloc(volume, info.buffer_bytes, &pages));
    OK(warpbell_volume_get_ref(volume, &args.volume));
    OK(warpbell_volume_buffer_get_ref(pages, &args.pages));
    OK(warpbell_cache_get_ref(cache, &args.cache));
    THAT(args.cache.kept_first == 0 && args.cache.kept_pages == 2);
    OK(warpbell_volume_launch(program, "store_cached", volume, &args, sizeof(args), NULL, &run));
    done(run);
    OK(warpbell_cache_get_counters(cache, &counted));
    THAT(counted.misses == 16 && counted.write_backs == 16 && counted.error_status == 0);
    THAT(word(ssds[0], 0) == 5001 && word(ssds[1], 0) == 5002 && word(ssds[1], 15) == 5032);
    FAILS(warpbell_volume_close(volume), WARPBELL_ERROR_BUSY, "warpbell_cache_close");
    OK(warpbell_cache_close(cache));
    OK(warpbell_volume_close(volume));
}

static void tiled(void) {
    const uint64_t order[] = {0, 1, 0, 2, 3, 2};
    struct {
        warpbell_namespace_ref ns;
        warpbell_buffer_ref ring;
        warpbell_schedule_ref schedule;
        uint64_t sums;
    } args;
    warpbell_tile tiles[6];
    warpbell_tiles_info info = WARPBELL_TILES_INFO_INIT;
    warpbell_launch_options shape = WARPBELL_LAUNCH_OPTIONS_INIT;
    warpbell_tiles* schedule;
    warpbell_buffer *ring, *sums;
    warpbell_buffer_ref ref;
    warpbell_run* run;
    void* host;
    size_t bytes;
    uint64_t i, at, sum = 0;
    /* Tile t has the four blocks from 4 t on, of which `cached` has written word w as 3 w + 1. */
    for (i = 0; i < 6; ++i) {
        const warpbell_tile tile = {order[i], order[i] * 4, 0, 4, 1};
        tiles[i] = tile;
        for (at = order[i] * 256; at < order[i] * 256 + 256; ++at) {
            sum -= at * 3 + 1;
        }
    }
    OK(warpbell_queues_tiles(queues[2], tiles, 6, NULL, &schedule));
    OK(warpbell_tiles_get_info(schedule, &info));
    THAT(info.steps == 6 && info.loads == 4 && info.loaded_bytes == 4 * 2048);
    THAT(info.slot_bytes == 2048 && info.ring_bytes == 4096);
    OK(warpbell_tiles_get_shared_bytes(schedule, 2, &shape.shared_bytes));
    OK(warpbell_buffer_alloc(queues[2], info.ring_bytes, &ring));
    OK(warpbell_buffer_alloc(queues[2], 32 * 8, &sums));
    OK(warpbell_buffer_get_host(sums, &host, &bytes));
    OK(warpbell_queues_get_namespace_ref(queues[2], &args.ns));
    OK(warpbell_buffer_get_ref(ring, &args.ring));
    OK(warpbell_tiles_get_ref(schedule, &args.schedule));
    OK(warpbell_buffer_get_ref(sums, &ref));
    args.sums = ref.data;
    OK(warpbell_launch(program, "sum_tiles", queues[2], &args, sizeof(args), &shape, &run));
    done(run);
    for (i = 0; i < 32; ++i) {
        sum += ((uint64_t*)host)[i];
    }
    THAT(sum == 0);
    FAILS(warpbell_queues_close(queues[2]), WARPBELL_ERROR_BUSY, "warpbell_tiles_close");
    OK(warpbell_tiles_close(schedule));
    FAILS(warpbell_tiles_close(schedule), WARPBELL_ERROR_HANDLE, "tiles: handle 1 was closed before");
}

int main(int argc, char** argv) {
    warpbell_attach_options wanted = WARPBELL_ATTACH_OPTIONS_INIT;
    int i;
    THAT(argc == 2);
    wanted.sharing = WARPBELL_SHARING_SHARED;
    for (i = 0; i < 3; ++i) {
        OK(warpbell_ssd_open("soft:size=1m", NULL, &ssds[i]));
        OK(warpbell_queues_attach(ssds[i], &wanted, &queues[i]));
    }
    OK(warpbell_program_compile("cpu", "volumes.cu", SOURCE, NULL, &program));
    striped();
    replicated_and_concatenated();
    by_the_host();
    registered();
    faults(argv[1]);
    running();
    cached();
    cached_volume();
    tiled();
    for (i = 0; i < 3; ++i) {
        OK(warpbell_queues_close(queues[i]));
        OK(warpbell_ssd_close(ssds[i]));
    }
    printf("%d checks\n", checks);
    return 0;
}
