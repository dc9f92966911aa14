// Kernel `io_rule_test`: calls of io.cuh, deallocate.cuh, coalesce.cuh and outstanding.cuh that show one rule
// each. One warp with `blocks` blocks for each lane, and data of as many; `mode` says what. A lane's record
// has its status, blocks that hold something else in `wrong`, and in `pad` what else the mode tells.
#include "src/common.cuh"

struct rule_args {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref buffer;
    uint64_t records; // rule_record[32]
    uint64_t seed;
    uint64_t timeout_ns;
    uint32_t mode;
    uint32_t blocks;
    uint32_t rounds;
    uint32_t pad;
};

struct rule_record {
    uint32_t answers;
    uint32_t status;
    uint32_t wrong;
    uint32_t pad;
    uint64_t bytes;
};

namespace kernels {

enum class rule : u32 {
    refused,
    whole,
    group,
    each,
    clipped,
    gap_in_blocks,
    gap_in_memory,
    two_buffers,
    copies,
    neighbours,
    mixed,
    any,
    any_done,
    all,
    cancelled,
    forced,
    forced_pieces,
    ranges,
    missing,
    zeroes,
    long_ranges,
};

template <sharing Mode> class rules {
  public:
    WARPBELL_D explicit rules(const rule_args& args)
        : args_(args), warp_(), s_(warp_, args.ns, 0), lane_(port::lane()) {}

    WARPBELL_D void run() {
        const status said = make(static_cast<rule>(args_.mode));
        record().status = said.bits;
        ++record().answers;
        s_.detach(warp_);
    }

  private:
    WARPBELL_D status make(rule mode) {
        switch (mode) {
        case rule::refused:
            return is_refused();
        case rule::whole:
            return read(warp_, s_, blocks(0, 8), data(0, 7));
        case rule::group:
            return read(warp_, s_, blocks(0, 8), data(0, 8));
        case rule::each:
            return read_each(warp_, s_, blocks(lane_ * 8u, 8), data(lane_ * 8u, 8));
        case rule::clipped:
            return write(warp_, s_, blocks(0, 5), data(8, 5));
        case rule::gap_in_blocks:
            return reads_coalesced(2u * lane_, data(lane_, 1));
        case rule::gap_in_memory:
            return reads_coalesced(lane_, data(2u * lane_, 1));
        case rule::two_buffers:
            return reads_two_buffers();
        case rule::copies:
            return reads_by_copies();
        case rule::neighbours:
            return reads_coalesced(lane_, data(lane_, 1));
        case rule::mixed:
            return mixes();
        case rule::cancelled:
            return cancels();
        case rule::forced:
            *data(lane_, 1).template data<u64>() = ~content(lane_);
            return run_each(warp_, s_, command::write(blocks(lane_, 1), data(lane_, 1), command::fua));
        case rule::forced_pieces:
            return forces_pieces();
        case rule::ranges:
            return deallocates(1);
        case rule::missing:
            return is_missing();
        case rule::zeroes:
            return zeroes();
        case rule::long_ranges:
            return deallocates(2);
        default:
            return waits(mode);
        }
    }

    WARPBELL_D rule_record& record() const { return reinterpret_cast<rule_record*>(args_.records)[lane_]; }
    WARPBELL_D static extent blocks(u64 first, u32 count) { return extent{lba(first), count}; }
    WARPBELL_D dma_span data(u64 block, u64 count) const {
        return dma_span(args_.buffer).subspan(block * s_.block_bytes(), count * s_.block_bytes());
    }
    WARPBELL_D u64 content(u64 block) const { return splitmix64(args_.seed ^ block); }
    // Time in which a controller that is alive does all there is.
    WARPBELL_D static void pause() {
        const u64 begin_ns = port::clock_ns();
        while (port::clock_ns() - begin_ns < 1000000) {
            port::pause();
        }
    }

    // Lane 0 asks for too much, 1 for more than its data holds, 2 with data that is not aligned, 3 for
    // nothing, 4 with flags where the number of blocks is; 5 and 6 for commands that are not of blocks.
    WARPBELL_D status is_refused() {
        const u64 bytes = s_.block_bytes();
        const dma_span mine = lane_ == 1u   ? data(lane_, 1).subspan(0, bytes / 2u)
                              : lane_ == 2u ? data(lane_, 1).subspan(1, bytes)
                                            : data(lane_, 2);
        const u32 count = lane_ == 0 ? s_.max_blocks() + 1u : lane_ == 3u ? 0u : 1u;
        const opcode op = lane_ == 5u   ? opcode::dataset_management
                          : lane_ == 6u ? opcode::flush
                                        : opcode::read;
        const command what = {op, blocks(lane_, count), mine, lane_ == 4u ? 7u : 0u};
        const status said = run_each(warp_, s_, lane_ < 4u ? command() : what);
        io_token token = submit_each(warp_, s_, what);
        const status answer = wait_each(warp_, s_, move(token));
        const bool by_group = refuses_flags() || lane_ != 4u;
        return by_group && (lane_ < 4u || said.bits == answer.bits) ? answer : status(code::aborted);
    }

    // Flags where the number of blocks is, or of a flush: by each call for the group.
    WARPBELL_D bool refuses_flags() {
        const command reads = command::read(blocks(0, 1), data(0, 1), 7),
                      flushes = {opcode::flush, extent(), dma_span(), 1u << 30};
        io_request<1> request;
        bool refused = true;
        for (u32 i = 0; i < 2u; ++i) {
            const command& what = i == 0 ? reads : flushes;
            refused = refused && warpbell::run(warp_, s_, what).is(code::invalid_field);
            refused = refused && wait(warp_, s_, submit(warp_, s_, what)).is(code::invalid_field);
            refused = refused && submit(warp_, s_, request, what).ok();
            refused = refused && wait(warp_, s_, request).is(code::invalid_field);
        }
        return refused && run_coalesced(warp_, s_, reads).is(code::invalid_field);
    }

    WARPBELL_D status reads_coalesced(u64 block, const dma_span& to) {
        *to.data<u64>() = 0;
        const status said = run_coalesced(warp_, s_, command::read(blocks(block, 1), to));
        record().wrong = *to.data<u64>() != content(block);
        return said;
    }
    // Side by side, too: ten lanes read, ten write, and the others zero. Then all look.
    WARPBELL_D status mixes() {
        const extent own = blocks(lane_, 1);
        u64* const word = data(lane_, 1).template data<u64>();
        *word = ~content(lane_);
        const status said = run_coalesced(warp_, s_,
                                          lane_ < 10u   ? command::read(own, data(lane_, 1))
                                          : lane_ < 20u ? command::write(own, data(lane_, 1))
                                                        : command::write_zeroes(own));
        const status looked = read_each(warp_, s_, own, data(lane_, 1));
        record().wrong = *word != (lane_ < 10u ? content(lane_) : lane_ < 20u ? ~content(lane_) : 0);
        return said.ok() ? looked : said;
    }
    // The end of one and the start of the other: side by side for the SSD. Each lane has its reference in the
    // same variable.
    WARPBELL_D status reads_two_buffers() {
        const u64 bytes = s_.block_bytes(), half = args_.buffer.bytes / 2u;
        warpbell_buffer_ref own = args_.buffer;
        own.bytes = half;
        if (lane_ >= 16u) {
            own.data += half;
            own.iova += half;
        }
        const u64 at = lane_ < 16u ? half - (16u - lane_) * bytes : (lane_ - 16u) * bytes;
        return reads_coalesced(lane_, dma_span(own).subspan(at, bytes));
    }
    // One buffer, of which each lane has a reference of its own.
    WARPBELL_D status reads_by_copies() {
        const warpbell_buffer_ref own = args_.buffer;
        return reads_coalesced(lane_, dma_span(own).subspan(lane_ * s_.block_bytes(), s_.block_bytes()));
    }

    WARPBELL_D status cancels() {
        io_token token = submit_each(warp_, s_, command::read(blocks(lane_, 1), data(lane_, 1)));
        pause();
        return cancel_each(warp_, s_, move(token));
    }

    // In more commands than are in flight at once.
    WARPBELL_D status forces_pieces() {
        *data(lane_, 1).template data<u64>() = ~content(lane_);
        io_request<2> request;
        const status begun =
            submit(warp_, s_, request, command::write(blocks(0, 32), data(0, 32), command::fua));
        return begun.ok() ? wait(warp_, s_, request) : begun;
    }

    // Even lanes have a block, the others none; the list lies behind all data.
    WARPBELL_D status deallocates(u32 count) {
        optional<extent> mine;
        if ((lane_ & 1u) == 0) {
            mine = blocks(lane_, count);
        }
        const dma_span list = data(32, 1);
        const status said = deallocate(warp_, s_, mine, list);
        warp_.sync();
        (void)read_each(warp_, s_, blocks(lane_, 1), data(lane_, 1));
        record().wrong = *data(lane_, 1).template data<u64>() != (mine ? 0 : content(lane_));
        return said;
    }

    // Compares, zeroes, and blocks that nobody needs, by each call: success where each is refused.
    WARPBELL_D status is_missing() {
        const extent own = blocks(lane_, 1);
        const command what = (lane_ & 1u) == 0 ? command::compare(own, data(lane_, 1))
                                               : command::write_zeroes(own),
                      whole = command::write_zeroes(blocks(0, 4));
        io_request<1> request;
        const status begun = submit(warp_, s_, request, whole);
        const status said[] = {
            run_each(warp_, s_, what),
            wait_each(warp_, s_, submit_each(warp_, s_, what)),
            run_coalesced(warp_, s_, what),
            warpbell::run(warp_, s_, whole),
            wait(warp_, s_, submit(warp_, s_, whole)),
            wait(warp_, s_, request),
            deallocate(warp_, s_, own, data(32, 1)),
            wait(warp_, s_, submit_deallocate(warp_, s_, own, data(32, 1))),
        };
        bool refused = begun.ok();
        for (const status& one : said) {
            refused = refused && one.bits == status::invalid_opcode().bits;
        }
        return refused ? status() : status(code::aborted);
    }

    WARPBELL_D status zeroes() {
        const command all = command::write_zeroes(blocks(0, 256));
        const status ran = warpbell::run(warp_, s_, all);
        const status waited = wait(warp_, s_, submit(warp_, s_, all));
        io_request<2> request;
        const status begun = submit(warp_, s_, request, all);
        const status ended = begun.ok() ? wait(warp_, s_, request) : begun;
        record().bytes = request.bytes();
        return detail::worse_of(ran, detail::worse_of(waited, ended));
    }

    // Four commands of a lane, and what is said of them.
    WARPBELL_D status waits(rule mode) {
        io_token tokens[4];
        for (u32 k = 0; k < 4; ++k) {
            tokens[k] =
                submit_each(warp_, s_, command::read(blocks(lane_ * 4u + k, 1), data(lane_ * 4u + k, 1)));
        }
        if (mode == rule::all) {
            return wait_all(warp_, s_, tokens);
        }
        if (mode == rule::any_done) {
            pause();
            for (u32 k = 0; k < 8; ++k) {
                (void)s_.queue().reap(warp_);
            }
        }
        status worst;
        for (u32 k = 0; k < 5; ++k) {
            const any_status one = wait_any(warp_, s_, tokens);
            const bool in_order = mode != rule::any_done || one.index == k;
            record().wrong += k < 4u && one.index != any_status::none ? !in_order : 0;
            record().bytes += one.index != any_status::none ? 1u : 0u;
            worst = detail::worse_of(worst, one.result);
        }
        for (u32 k = 0; k < 4; ++k) {
            record().pad += tokens[k].valid();
        }
        return worst;
    }

    const rule_args& args_;
    const this_warp_t warp_;
    session<Mode> s_;
    const u32 lane_;
};

} // namespace kernels

WARPBELL_KERNEL(io_rule_test, rule_args) {
    if (args.ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        kernels::rules<wb::sharing::exclusive>(args).run();
    } else {
        kernels::rules<wb::sharing::shared>(args).run();
    }
}
