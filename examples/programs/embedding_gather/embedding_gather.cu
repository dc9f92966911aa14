// out[i] = rows[lookups[i]]: each row by one warp, 32 floats at a time. Rows begin anywhere, and may straddle
// pages.
#include "program.cuh"
using namespace programs;

struct gather_args {
    stage_ref stage;
    u64 rows; // the table's first byte
    u64 dim, row_count;
    u64 lookups, out; // in memory: row numbers of 64 bits, and floats
    u64 count;
};

template <class Data> WARPBELL_D void embedding_gather(Data& data, const gather_args& args) {
    auto rows = data.template array<float>(args.rows, args.row_count * args.dim);
    const u64* const lookups = reinterpret_cast<const u64*>(args.lookups);
    float* const out = reinterpret_cast<float*>(args.out);
    const share mine = share_of_warp(args.count, 1);
    for (u64 row = mine.first; row < mine.end; ++row) {
        const u64 from = lookups[row] * args.dim, to = row * args.dim;
        for (u64 column = port::lane(); this_warp().ballot(column < args.dim) != 0;
             column += WARPBELL_WARP_LANES) {
            float value = 0;
            const status said = rows.try_load(this_warp(), index_if(column < args.dim, from + column), value);
            if (!data.all_good(said)) {
                return;
            }
            if (column < args.dim) {
                out[to + column] = value;
            }
        }
        data.advance(1);
    }
}
WARPBELL_PROGRAM(embedding_gather, gather_args, read_only)
