// Keys and values of attention, by sequence, layer and token. Each warp serves its layers of sequences, in
// order: a put stores what a model would have computed for some tokens of a layer, a get reads tokens again.
#include "program.cuh"
using namespace programs;

// As in section `requests` of crates/data/src/kv.rs.
struct kv_request {
    u32 put, sequence, layer, first, tokens, version;
};

struct kv_args {
    stage_ref stage;
    u64 store;    // its first byte
    u64 requests; // kv_request[count], in memory
    u64 sums;     // u64[count]: of the words that were put or got
    u64 count;
    u32 sequences, layers, tokens; // that there is room for
    u32 words;                     // of a token in a layer
};

// A word of what a model computes. Anything, as long as each word is another one in each place and version.
WARPBELL_D u32 computed(const kv_request& r, u32 token, u32 word) {
    u64 mixed = (static_cast<u64>(r.sequence) << 32 | r.layer) * 0x9e3779b97f4a7c15u + r.version;
    mixed = (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9u + (static_cast<u64>(token) << 32 | word);
    return static_cast<u32>((mixed ^ mixed >> 32) * 0x94d049bb133111ebu >> 32);
}

WARPBELL_D bool fits(const kv_args& args, const kv_request& r) {
    return r.sequence < args.sequences && r.layer < args.layers && r.first <= args.tokens &&
           r.tokens <= args.tokens - r.first;
}

// One request. To `sum` goes each word of this lane's times an odd number of its own: one that differs makes
// another sum.
template <class Words>
WARPBELL_D status serve(const kv_args& args, Words& store, const kv_request& r, u64& sum) {
    if (!fits(args, r)) {
        return code::out_of_range;
    }
    const u64 place = (static_cast<u64>(r.sequence) * args.layers + r.layer) * args.tokens + r.first;
    const u64 begin = place * args.words, end = begin + static_cast<u64>(r.tokens) * args.words;
    for (u64 at = begin; at < end;) {
        auto held = store.acquire(this_warp(), at); // one lookup for all words of the page
        if (!held) {
            return held.result();
        }
        for (u32 here = WARPBELL_WARP_LANES; here == WARPBELL_WARP_LANES; at += here) {
            const u64 index = at + port::lane(), nth = index - begin;
            const bool mine = index < end && held.contains(index);
            if (mine) {
                if (r.put != 0) {
                    held.set(index, computed(r, r.first + static_cast<u32>(nth / args.words),
                                             static_cast<u32>(nth % args.words)));
                }
                sum += held[index] * (2u * nth + 1u);
            }
            here = port::population(this_warp().ballot(mine));
        }
    }
    return status();
}

WARPBELL_D u64 sum_of_warp(u64 sum) {
    for (u32 distance = WARPBELL_WARP_LANES / 2u; distance != 0; distance /= 2u) {
        sum += this_warp().from(port::lane() ^ distance, sum);
    }
    return sum;
}

template <class Data> WARPBELL_D void kv_cache(Data& data, const kv_args& args) {
    const u64 words = static_cast<u64>(args.sequences) * args.layers * args.tokens * args.words;
    auto store = data.template array<u32>(args.store, words);
    for (u64 n = 0; n < args.count; ++n) {
        const kv_request r = reinterpret_cast<const kv_request*>(args.requests)[n];
        if ((r.sequence * args.layers + r.layer) % port::grid_blocks() != port::block_index()) {
            continue;
        }
        u64 sum = 0;
        if (!data.all_good(serve(args, store, r, sum))) {
            return;
        }
        sum = sum_of_warp(sum);
        if (port::lane() == 0) {
            reinterpret_cast<u64*>(args.sums)[n] = sum;
        }
        data.advance(1);
    }
    (void)data.good(data.flush());
}
WARPBELL_PROGRAM(kv_cache, kv_args, read_write)
