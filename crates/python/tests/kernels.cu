// Kernels of the tests of the Python package.
#include <warpbell/array.cuh>
#include <warpbell/stream.cuh>
#include <warpbell/warpbell.cuh>
using namespace warpbell;

struct sum_args {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref data, sums;
    uint64_t blocks;
};

// Each lane reads a block and sums its bytes.
WARPBELL_KERNEL(sum_blocks, sum_args) {
    session<sharing::exclusive> ssd(this_warp(), args.ns, 0);
    const dma_span mine = dma_span(args.data).subspan(port::lane() * ssd.block_bytes(), ssd.block_bytes());
    optional<extent> wanted;
    if (port::lane() < args.blocks) { wanted = extent{lba(port::lane()), 1}; }
    const status s = read_each(this_warp(), ssd, wanted, mine);
    uint64_t sum = 0;
    for (uint32_t i = 0; wanted && s.ok() && i < ssd.block_bytes(); ++i) { sum += mine.data<uint8_t>()[i]; }
    dma_span(args.sums).data<uint64_t>()[port::lane()] = s.ok() ? sum + ADDED : s.bits;
    ssd.detach(this_warp());
}

struct layout_args {
    uint8_t small;
    uint32_t word;
    uint16_t half;
    uint64_t wide;
    float real;
    uint8_t bytes[3];
    warpbell_buffer_ref out;
};

// Stores each field as a word of its own.
WARPBELL_KERNEL(layout, layout_args) {
    if (port::lane() != 0) { return; }
    uint64_t* out = dma_span(args.out).data<uint64_t>();
    out[0] = args.small;
    out[1] = args.word;
    out[2] = args.half;
    out[3] = args.wide;
    out[4] = static_cast<uint64_t>(args.real * 4);
    out[5] = args.bytes[0] + 256u * args.bytes[1] + 65536u * args.bytes[2];
}

struct wait_args {
    uint64_t stop;
};

// Runs until somebody sets the word.
WARPBELL_KERNEL(wait_for_word, wait_args) {
    volatile uint32_t* stop = reinterpret_cast<volatile uint32_t*>(args.stop);
    while (*stop == 0) { port::pause(); }
}

struct volume_args {
    warpbell_volume_ref volume;
    warpbell_volume_buffer_ref buffer;
    warpbell_buffer_ref answers;
};

// Each lane writes its number to a block of its own, and reads it again.
WARPBELL_KERNEL(volume_numbers, volume_args) {
    volume<sharing::exclusive, 4> v(this_warp(), args.volume, 0);
    const uint64_t number = port::lane();
    const volume_span mine = volume_span(args.buffer).subspan(number * v.block_bytes(), v.block_bytes());
    *mine.data<uint64_t>() = number + 1000u;
    status s = write_each(this_warp(), v, extent{lba(number), 1}, mine);
    *mine.data<uint64_t>() = 0;
    s = s.ok() ? read_each(this_warp(), v, extent{lba(number), 1}, mine) : s;
    dma_span(args.answers).data<uint64_t>()[number] = s.ok() ? *mine.data<uint64_t>() : s.bits;
    v.detach(this_warp());
}

struct cached_args {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref pages;
    warpbell_cache_ref cache;
    warpbell_buffer_ref sums;
    uint64_t count;
};

// Each lane sums every 32nd word, through a page cache.
WARPBELL_KERNEL(sum_cached, cached_args) {
    session<sharing::shared> ssd(this_warp(), args.ns, 0);
    page_cache<session<sharing::shared>> pages(this_warp(), args.cache, ssd, dma_span(args.pages));
    array_view<uint32_t, decltype(pages)> x(pages, 0, args.count);
    uint64_t total = 0;
    for (uint64_t i = 0; i < args.count; i += 32u) { total += x[i + port::lane()]; }
    dma_span(args.sums).data<uint64_t>()[port::lane()] = total;
    pages.detach(this_warp());
    ssd.detach(this_warp());
}

struct copy_args {
    warpbell_volume_ref volume;
    warpbell_volume_buffer_ref buffer;
    warpbell_buffer_ref answer;
    uint64_t first;
    uint32_t blocks;
};

// Copies `blocks` blocks from `first` on into the buffer, by one I/O.
WARPBELL_KERNEL(copy, copy_args) {
    volume<sharing::shared, 4> v(this_warp(), args.volume, 0);
    const status s = read(this_warp(), v, extent{lba(args.first), args.blocks}, volume_span(args.buffer));
    if (port::lane() == 0) { *dma_span(args.answer).data<uint32_t>() = s.bits; }
    v.detach(this_warp());
}

struct store_args {
    warpbell_volume_ref volume;
    warpbell_volume_buffer_ref buffer;
    warpbell_buffer_ref answer;
    uint64_t block;
};

// Writes one block, and drops the replicas that do not take it.
WARPBELL_KERNEL(store, store_args) {
    volume<sharing::shared, 4> v(this_warp(), args.volume, 0);
    const status s = write(this_warp(), v, extent{lba(args.block), 1}, volume_span(args.buffer).subspan(0, 512));
    if (port::lane() == 0) { *dma_span(args.answer).data<uint32_t>() = s.bits; }
    v.detach(this_warp());
}

struct cached_volume_args {
    warpbell_volume_ref volume;
    warpbell_volume_buffer_ref pages;
    warpbell_cache_ref cache;
    warpbell_buffer_ref sums;
    uint64_t count;
};

// Sums words of a volume through a page cache.
WARPBELL_KERNEL(sum_cached_volume, cached_volume_args) {
    volume<sharing::shared, 4> v(this_warp(), args.volume, 0);
    page_cache<decltype(v)> pages(this_warp(), args.cache, v, volume_span(args.pages));
    array_view<uint32_t, decltype(pages)> x(pages, 0, args.count);
    uint64_t total = 0;
    for (uint64_t i = 0; i < args.count; i += 32u) { total += x[i + port::lane()]; }
    dma_span(args.sums).data<uint64_t>()[port::lane()] = total;
    pages.detach(this_warp());
    v.detach(this_warp());
}

struct tiled_args {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref ring;
    warpbell_schedule_ref schedule;
    warpbell_buffer_ref sums;
};

// Sums words of tiles in the order of a schedule.
WARPBELL_KERNEL(sum_tiles, tiled_args) {
    const this_block_t block = this_block();
    session<sharing::shared> ssd(this_warp(), args.ns, 0);
    tile_stream<decltype(ssd), 3, 2> tiles(block, listed_tiles(args.schedule), ssd, dma_span(args.ring), port::block_memory());
    uint64_t sum = 0;
    const status all = tiles.for_each(block, [&](const stream_tile& tile) {
        for (uint32_t i = block.thread_rank(); tile && i < tile.bytes() / 4; i += block.size()) { sum += tile.data<uint32_t>()[i]; }
    });
    const status left = tiles.detach(block);
    dma_span(args.sums).data<uint64_t>()[block.thread_rank()] = all.ok() && left.ok() ? sum : 0;
    ssd.detach(this_warp());
}
