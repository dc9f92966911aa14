// Two columns joined by their keys: both are dealt into partitions on the SSD, then a warp takes one
// partition at a time, has its left rows in a table in memory of the GPU and looks each right row up there.
#include "program.cuh"
using namespace programs;

struct pair {
    u64 key, value;
};
struct match {
    u64 key, left, right;
};

// One column, to be counted or dealt.
struct deal_args {
    stage_ref stage;
    u64 from, rows, to; // its first byte, and that of its partitions
    u64 partitions;
    u64 cursors; // u64[partitions]: rows counted so far, or where the next one goes
    u64 counts;  // whether rows are only counted
};
struct match_args {
    stage_ref stage;
    u64 left, left_rows, right, right_rows; // of the partitions
    u64 left_begins, right_begins;          // u64[partitions + 1]
    u64 partitions;
    u64 out, out_rows, found;             // u64
    u64 tables, table_bytes, table_slots; // one of each warp: u64[table_slots], then pairs
};

WARPBELL_D u64 hash(u64 key) { return (key ^ key >> 32) * 0x9e3779b97f4a7c15ull; }

// Calls each(has, row, pair) by all lanes for rows from `first` to `end`, until something fails.
template <class Data, class Rows, class Each>
WARPBELL_D bool each_row(Data& data, Rows& rows, u64 first, u64 end, Each each) {
    for (; first < end; first += 32) {
        const u64 row = first + port::lane();
        const bool has = row < end;
        pair it{};
        if (!data.all_good(rows.try_load(this_warp(), index_if(has, row), it)) ||
            !data.all_good(each(has, row, it))) {
            return false;
        }
        data.advance(port::population(this_warp().ballot(has)));
    }
    return true;
}

// Counts the rows of each partition, or has each row go to its own.
template <class Data> WARPBELL_D void deal(Data& data, const deal_args& args) {
    auto from = data.template array<pair>(args.from, args.rows);
    auto to = data.template array<pair>(args.to, args.rows);
    const share mine = share_of_warp(args.rows);
    (void)each_row(data, from, mine.first, mine.end, [&](bool has, u64, const pair& it) {
        u64* const cursors = reinterpret_cast<u64*>(args.cursors);
        const u64 partition = port::multiply_high(hash(it.key), args.partitions);
        const u64 place = has ? port::fetch_add_relaxed_gpu(cursors + partition, 1) : 0;
        return args.counts != 0 ? status() : to.store(this_warp(), index_if(has, place), it);
    });
}
WARPBELL_PROGRAM(deal, deal_args, read_write)

// A warp's table of left rows, by open addressing.
class row_table {
  public:
    WARPBELL_D row_table(const match_args& args, u64 warp)
        : slots_(reinterpret_cast<u64*>(args.tables + warp * args.table_bytes)),
          rows_(reinterpret_cast<pair*>(slots_ + args.table_slots)), mask_(args.table_slots - 1) {}

    WARPBELL_D void clear() const {
        this_warp().sync(); // nobody looks anything up any more
        for (u64 at = port::lane(); at <= mask_; at += 32) {
            port::store_relaxed_gpu(slots_ + at, 0);
        }
        this_warp().sync();
    }
    // Row `number`, of this lane. Another lane may see it after the next sync().
    WARPBELL_D void insert(u64 number, const pair& row) const {
        rows_[number] = row;
        u64 at = begin(row.key);
        while (port::cas_relaxed_gpu(slots_ + at, 0, number + 1) != 0) {
            at = after(at);
        }
    }
    WARPBELL_D u64 begin(u64 key) const { return (hash(key) >> 16) & mask_; }
    WARPBELL_D u64 after(u64 at) const { return (at + 1) & mask_; }
    // The row in a slot, or null at the end of a chain.
    WARPBELL_D const pair* row(u64 at) const {
        const u64 number = port::load_relaxed_gpu(slots_ + at);
        return number != 0 ? rows_ + (number - 1) : nullptr;
    }

  private:
    u64* const slots_;
    pair* const rows_;
    const u64 mask_;
};

// By all lanes, each with a right row, or none: what matches goes to the end of the output.
template <class Out>
WARPBELL_D status look_up(const match_args& args, const row_table& table, bool has, const pair& right,
                          Out& out) {
    status result;
    for (u64 at = table.begin(right.key); this_warp().ballot(has) != 0; at = table.after(at)) {
        const pair* const left = has ? table.row(at) : nullptr;
        const bool hit = left != nullptr && left->key == right.key;
        const u32 hits = this_warp().ballot(hit);
        if (hits != 0) {
            u64* const found = reinterpret_cast<u64*>(args.found);
            const u64 count = port::population(hits);
            const u64 end = this_warp().is_leader() ? port::fetch_add_relaxed_gpu(found, count) : 0;
            const u64 place = this_warp().broadcast(end) + rank_in(hits);
            const match pairs{right.key, hit ? left->value : 0, right.value};
            const status stored = out.store(this_warp(), index_if(hit, place), pairs);
            result = result.ok() ? stored : result;
        }
        has = left != nullptr;
    }
    return result;
}

// One partition, whose rows are from `left` and `right` on.
template <class Data> WARPBELL_D bool join_partition(Data& data, const match_args& args, u64 partition) {
    auto left = data.template array<pair>(args.left, args.left_rows);
    auto right = data.template array<pair>(args.right, args.right_rows);
    auto out = data.template array<match>(args.out, args.out_rows);
    const u64* const left_begins = reinterpret_cast<const u64*>(args.left_begins) + partition;
    const u64* const right_begins = reinterpret_cast<const u64*>(args.right_begins) + partition;
    const row_table table(args, port::block_index());
    table.clear();
    const bool good =
        each_row(data, left, left_begins[0], left_begins[1], [&](bool has, u64 row, const pair& it) {
            if (has) {
                table.insert(row - left_begins[0], it);
            }
            return status();
        });
    this_warp().sync();
    return good &&
           each_row(data, right, right_begins[0], right_begins[1],
                    [&](bool has, u64, const pair& it) { return look_up(args, table, has, it, out); });
}

template <class Data> WARPBELL_D void join(Data& data, const match_args& args) {
    u64 at = port::block_index();
    while (at < args.partitions && join_partition(data, args, at)) {
        at += port::grid_blocks();
    }
    (void)data.good(data.flush());
}
WARPBELL_PROGRAM(join, match_args, read_write)
