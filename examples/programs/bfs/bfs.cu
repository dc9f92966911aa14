// One level of a breadth-first search. The frontier and the depths are in memory of the GPU, the graph is on
// the SSD.
#include "csr.cuh"
using namespace programs;

constexpr u64 unseen = ~0ull;

// Counted by all warps.
struct bfs_found {
    u64 nodes; // of the next frontier
    u64 edges; // of this one
    u64 sum;   // of the nodes that they end in
};
struct bfs_args {
    stage_ref stage;
    u64 offsets, columns; // their first bytes
    u64 nodes, edges;
    u64 depths;         // u64[nodes]: a node's level, or `unseen`
    u64 frontier, next; // u32[nodes]
    u64 frontier_nodes, level;
    u64 found; // bfs_found
};

// By all lanes, each with the node that an edge ends in, or none. Who sees a node first puts it into the next
// frontier.
WARPBELL_D void look_at(const bfs_args& args, bool has, u32 node) {
    u64* const depth = reinterpret_cast<u64*>(args.depths) + (has ? node : 0);
    bfs_found* const found = reinterpret_cast<bfs_found*>(args.found);
    const bool is_new = has && port::load_relaxed_gpu(depth) == unseen &&
                        port::cas_relaxed_gpu(depth, unseen, args.level + 1) == unseen;
    const u32 news = this_warp().ballot(is_new);
    if (news == 0) {
        return;
    }
    const u64 count = port::population(news);
    const u64 mine = this_warp().is_leader() ? port::fetch_add_relaxed_gpu(&found->nodes, count) : 0;
    const u64 at = this_warp().broadcast(mine) + rank_in(news);
    if (is_new) {
        reinterpret_cast<u32*>(args.next)[at] = node;
    }
}

template <class Data> WARPBELL_D void bfs(Data& data, const bfs_args& args) {
    auto offsets = data.template array<u64>(args.offsets, args.nodes + 1);
    auto columns = data.template array<u32>(args.columns, args.edges);
    csr_rows<decltype(offsets), decltype(columns)> rows(offsets, columns);
    const u32* const frontier = reinterpret_cast<const u32*>(args.frontier);
    u64 edges = 0, sum = 0;
    const auto visit = [&](bool has, u32, u32 node) {
        const bool is_node = has && node < args.nodes;
        if (has && !is_node) {
            (void)data.good(code::mismatch);
        }
        edges += has ? 1u : 0u;
        sum += node;
        look_at(args, is_node, node);
    };
    for (u64 first = port::block_index() * 32u; first < args.frontier_nodes;
         first += port::grid_blocks() * 32u) {
        const u64 at = first + port::lane();
        const bool has = at < args.frontier_nodes;
        const status loaded = rows.load(index_if(has, has ? frontier[at] : 0));
        if (!data.all_good(loaded) || !data.all_good(rows.each_edge(visit))) {
            return;
        }
        data.advance(port::population(this_warp().ballot(has)));
    }
    bfs_found* const found = reinterpret_cast<bfs_found*>(args.found);
    port::add_relaxed_gpu(&found->edges, edges);
    port::add_relaxed_gpu(&found->sum, sum);
}
WARPBELL_PROGRAM(bfs, bfs_args, read_only)
