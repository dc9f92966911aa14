// The k rows of a table that are most like each of four queries, by their products. Elements are multiples of
// 2^-23 from -1 to 1, so a product is a whole number of 2^-46, and the sum is exact in whatever order.
#include "program.cuh"
using namespace programs;

constexpr u32 queries = 4;

struct top_k_args {
    stage_ref stage;
    u64 rows_at; // the first byte of the rows
    u64 rows;
    u64 queries; // int32_t[dim][queries], in units of 2^-23
    u64 lists;   // candidate[queries][warps][32]: of each warp its k best, for the host to merge
    u32 dim, k, chunk_rows, pad;
};

// A row and its product with a query. None: a row behind the last one.
struct candidate {
    int64_t product;
    u64 row;
};

// The k best that a warp has seen, lane i the i-th. Of two rows that are as good the first is better.
class best_rows {
  public:
    // Each lane its own.
    WARPBELL_D void offer(candidate its, u32 k) {
        const this_warp_t warp;
        const u32 lane = port::lane();
        candidate worst = from(k - 1u, mine_);
        for (u32 open = warp.ballot(better(its, worst)); open != 0; open = warp.ballot(better(its, worst))) {
            const candidate next = from(port::lowest(open), its);
            const u32 place = port::population(warp.ballot(better(mine_, next)));
            const candidate above = from(lane == 0 ? 0 : lane - 1u, mine_);
            mine_ = lane < place ? mine_ : lane == place ? next : above;
            its = lane == port::lowest(open) ? candidate{0, none} : its;
            worst = from(k - 1u, mine_);
        }
    }
    WARPBELL_D candidate mine() const { return mine_; }
    static constexpr u64 none = ~0ull;

  private:
    WARPBELL_D static bool better(const candidate& a, const candidate& b) {
        return a.row != none &&
               (b.row == none || a.product > b.product || (a.product == b.product && a.row < b.row));
    }
    WARPBELL_D static candidate from(u32 lane, const candidate& its) {
        const u64 product = this_warp().from(lane, static_cast<u64>(its.product));
        return candidate{static_cast<int64_t>(product), this_warp().from(lane, its.row)};
    }
    candidate mine_{0, none};
};

// Rows [first, end), a lane each. `base`: the row that `elements` begins with.
template <class Elements, class Notes>
WARPBELL_D bool scan(const top_k_args& args, Elements& elements, Notes& notes, u64 base, share part,
                     best_rows* best) {
    const int32_t* const query = reinterpret_cast<const int32_t*>(args.queries);
    for (u64 first = part.first; first < part.end; first += WARPBELL_WARP_LANES) {
        const u64 row = first + port::lane();
        int64_t products[queries] = {};
        for (u32 at = 0; at < args.dim; ++at) {
            float element = 0;
            const status said = elements.try_load(
                this_warp(), index_if(row < part.end, (row - base) * args.dim + at), element);
            // What is no such number did not come from the generator.
            const bool usual = element >= -1.0f && element <= 1.0f;
            if (!notes.all_good(said.ok() && !usual ? status(code::mismatch) : said)) {
                return false;
            }
            const int64_t whole = static_cast<int32_t>(element * 8388608.0f);
            for (u32 q = 0; q < queries; ++q) {
                products[q] += whole * query[at * queries + q];
            }
        }
        for (u32 q = 0; q < queries; ++q) {
            best[q].offer(candidate{products[q], row < part.end ? row : best_rows::none}, args.k);
        }
    }
    this_warp().sync(); // nobody reads there any more
    notes.advance(static_cast<u32>(part.end - part.first));
    return true;
}

WARPBELL_D void keep(const top_k_args& args, const best_rows* best) {
    candidate* const lists = reinterpret_cast<candidate*>(args.lists);
    for (u32 q = 0; q < queries; ++q) {
        const u64 list = static_cast<u64>(q) * port::grid_blocks() + port::block_index();
        lists[list * WARPBELL_WARP_LANES + port::lane()] = best[q].mine();
    }
}

// The n-th chunk of this warp; behind the last one empty.
WARPBELL_D share chunk_of_warp(const top_k_args& args, u64 n) {
    const u64 first = (n * port::grid_blocks() + port::block_index()) * args.chunk_rows;
    const u64 end = first + args.chunk_rows;
    return share{first < args.rows ? first : args.rows, end < args.rows ? end : args.rows};
}

template <class Data> WARPBELL_D void top_k(Data& data, const top_k_args& args) {
    auto elements = data.template array<float>(args.rows_at, args.rows * args.dim);
    best_rows best[queries];
    for (u64 n = 0; chunk_of_warp(args, n).first < args.rows; ++n) {
        if (!scan(args, elements, data, 0, chunk_of_warp(args, n), best)) {
            return;
        }
    }
    keep(args, best);
}
WARPBELL_PROGRAM(top_k, top_k_args, read_only)

// With no cache: one half of this warp's memory is filled while it looks at the other half.
WARPBELL_KERNEL(top_k_streamed_cached, top_k_args) {
    const top_k_args own = args;
    const this_warp_t warp;
    notes said(own.stage);
    session<sharing::shared> ssd(warp, own.stage.ns, port::block_index());
    const u64 row_bytes = own.dim * 4u, chunk_bytes = own.chunk_rows * row_bytes, block = ssd.block_bytes();
    const dma_span all =
        dma_span(own.stage.buffer).subspan(port::block_index() * 2u * chunk_bytes, 2u * chunk_bytes);
    const auto begin = [&](u64 n) {
        const share rows = chunk_of_warp(own, n);
        const u64 bytes = (rows.end - rows.first) * row_bytes, at = own.rows_at + rows.first * row_bytes;
        const extent where{lba(own.stage.cache.first_block + at / block),
                           static_cast<u32>((bytes + block - 1u) / block)};
        return bytes != 0
                   ? submit(warp, ssd, command::read(where, all.subspan(n % 2u * chunk_bytes, chunk_bytes)))
                   : io_token();
    };
    best_rows best[queries];
    io_token moving = begin(0);
    bool good = true;
    for (u64 n = 0; good && chunk_of_warp(own, n).first < own.rows; ++n) {
        good = said.all_good(wait(warp, ssd, warpbell::move(moving)));
        moving = good ? begin(n + 1u) : io_token();
        const share rows = chunk_of_warp(own, n);
        plain_array<float> elements(reinterpret_cast<u64>(all.data<u8>()) + n % 2u * chunk_bytes,
                                    (rows.end - rows.first) * own.dim);
        good = good && scan(own, elements, said, rows.first, rows, best);
    }
    (void)said.all_good(wait(warp, ssd, warpbell::move(moving))); // where a chunk was not looked at
    keep(own, best);
    ssd.detach(warp);
}
