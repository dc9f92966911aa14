// Rows of a graph in compressed sparse form, 32 at a time. Their edges are dealt to the lanes one after the
// other: a row of thousands keeps all lanes busy, as thirty of a few do, and columns that lie side by side
// are loaded together.
#pragma once

#include "program.cuh"

namespace programs {

template <class Offsets, class Columns> class csr_rows {
  public:
    WARPBELL_D csr_rows(Offsets& offsets, Columns& columns) : offsets_(offsets), columns_(columns) {}

    // Each lane names a row, or none. Numbers that cannot be a row's are an error, and the row is taken for
    // empty.
    WARPBELL_D status load(optional<u64> row) {
        u64 begin = 0;
        end_ = 0;
        const status first = offsets_.try_load(this_warp(), row, begin);
        const status second = offsets_.try_load(this_warp(), index_if(row.has_value(), *row + 1), end_);
        const bool possible = begin <= end_ && end_ <= columns_.size();
        const status shape = possible ? status() : status(code::mismatch);
        const status result = !first.ok() ? first : !second.ok() ? second : shape;
        degree_ = row && result.ok() ? end_ - begin : 0;
        return result;
    }

    // Edges of this lane's row.
    WARPBELL_D u64 degree() const { return degree_; }

    // Calls visit(has, owner, node) by all lanes, until each edge was some lane's: from lane `owner`'s row to
    // `node`.
    template <class Visit> WARPBELL_D status each_edge(Visit visit) {
        const u64 upto = sum_upto(), total = this_warp().from(31, upto);
        status result;
        for (u64 first = 0; first < total; first += 32) {
            const u64 at = first + port::lane();
            const u32 owner = owner_of(at, upto);
            const u64 edge = this_warp().from(owner, end_ - upto) + at;
            u32 node = 0;
            const status got = columns_.try_load(this_warp(), index_if(at < total, edge), node);
            visit(at < total && got.ok(), owner, node);
            result = result.ok() ? got : result;
        }
        return result;
    }

  private:
    // Edges of this lane's row and of those before it.
    WARPBELL_D u64 sum_upto() const {
        u64 sum = degree_;
        for (u32 step = 1; step < 32; step *= 2) {
            const u64 before = this_warp().from((port::lane() - step) & 31u, sum);
            sum += port::lane() >= step ? before : 0;
        }
        return sum;
    }
    // The first lane whose sum is above `at`, or the last lane.
    WARPBELL_D static u32 owner_of(u64 at, u64 upto) {
        u32 owner = 0;
        for (u32 step = 16; step != 0; step /= 2) {
            owner += this_warp().from(owner + step - 1, upto) <= at ? step : 0;
        }
        return owner;
    }

    Offsets& offsets_;
    Columns& columns_;
    u64 end_ = 0, degree_ = 0;
};

} // namespace programs
