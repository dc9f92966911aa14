// z = x + y, each element by one lane. z goes back to the SSD through the cache.
#include "program.cuh"
using namespace programs;

struct add_args {
    stage_ref stage;
    u64 x, y, z; // their first bytes
    u64 count;
};

template <class Data> WARPBELL_D void vector_add(Data& data, const add_args& args) {
    const this_warp_t warp = this_warp();
    auto x = data.template array<float>(args.x, args.count);
    auto y = data.template array<float>(args.y, args.count);
    auto z = data.template array<float>(args.z, args.count);
    const share mine = share_of_warp(args.count);
    for (u64 first = mine.first; first < mine.end; first += WARPBELL_WARP_LANES) {
        const u64 at = first + port::lane();
        const optional<u64> index = index_if(at < mine.end, at);
        float a = 0, b = 0;
        const status got_a = x.try_load(warp, index, a), got_b = y.try_load(warp, index, b);
        if (!data.all_good(got_a) || !data.all_good(got_b) || !data.all_good(z.store(warp, index, a + b))) {
            return;
        }
        data.advance(WARPBELL_WARP_LANES);
    }
    (void)data.good(data.flush());
}
WARPBELL_PROGRAM(vector_add, add_args, read_write)
