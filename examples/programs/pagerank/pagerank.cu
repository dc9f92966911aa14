// One round of PageRank: each node hands its rank on along its edges. Ranks are whole numbers of 2^-32, so
// that their sum is the same in whatever order they come. They are in memory of the GPU, the graph is on the
// SSD.
#include "csr.cuh"
using namespace programs;

struct pagerank_args {
    stage_ref stage;
    u64 offsets, columns; // their first bytes
    u64 nodes, edges;
    u64 sums, next;    // u64[nodes]: what each node was handed in the last round, and what in this one
    u64 base, damping; // a rank is base + sum * damping / 256
};

template <class Data> WARPBELL_D void pagerank(Data& data, const pagerank_args& args) {
    auto offsets = data.template array<u64>(args.offsets, args.nodes + 1);
    auto columns = data.template array<u32>(args.columns, args.edges);
    csr_rows<decltype(offsets), decltype(columns)> rows(offsets, columns);
    const u64* const sums = reinterpret_cast<const u64*>(args.sums);
    u64* const next = reinterpret_cast<u64*>(args.next);
    u64 share = 0;
    const auto visit = [&](bool has, u32 owner, u32 node) {
        const u64 handed = this_warp().from(owner, share);
        if (has && node < args.nodes) {
            port::add_relaxed_gpu(next + node, handed);
        } else if (has) {
            (void)data.good(code::mismatch);
        }
    };
    for (u64 first = port::block_index() * 32u; first < args.nodes; first += port::grid_blocks() * 32u) {
        const u64 node = first + port::lane();
        const bool has = node < args.nodes;
        if (!data.all_good(rows.load(index_if(has, node)))) {
            return;
        }
        const u64 rank = has ? args.base + (sums[node] * args.damping >> 8) : 0;
        share = rows.degree() != 0 ? rank / rows.degree() : 0;
        if (!data.all_good(rows.each_edge(visit))) {
            return;
        }
        data.advance(port::population(this_warp().ballot(has)));
    }
}
WARPBELL_PROGRAM(pagerank, pagerank_args, read_only)
