// Kernel `io_call_test`: the calls of commands.cuh, outstanding.cuh and merge.cuh. The lanes of the mask
// `batch` call together, each with `async_depth` blocks of the buffer; `mode` says what. A lane's record has
// its status, in `payload` whether the data was right (1) or not (2), in `found` what else the mode tells.
#include "src/common.cuh"

namespace kernels {

enum class call : u32 { compare, write_zeroes, deallocate, fua, any, cancel, merged, split, each };

template <sharing Mode> class caller {
  public:
    WARPBELL_D explicit caller(const warpbell_queue_test_args& args)
        : args_(args), group_(args.batch), s_(group_, args.ns, 0), lane_(port::lane()),
          depth_(args.async_depth) {}

    WARPBELL_D void run() {
        status answer;
        switch (static_cast<call>(args_.mode)) {
        case call::compare:
            answer = compares();
            break;
        case call::write_zeroes:
            answer = writes_zeroes();
            break;
        case call::deallocate:
            answer = deallocates();
            break;
        case call::fua:
            answer = forces();
            break;
        case call::any:
            answer = waits_for_any();
            break;
        case call::cancel:
            answer = cancels();
            break;
        case call::merged:
            answer = merges();
            break;
        case call::split:
            answer = splits();
            break;
        default:
            answer = read_each(group_, s_, block(lane_), part(0), args_.deadline_ns);
            break;
        }
        record().status = answer.bits;
        ++record().answers;
        s_.detach(group_);
    }

  private:
    WARPBELL_D warpbell_test_record& record() const {
        return reinterpret_cast<warpbell_test_record*>(args_.records)[lane_];
    }
    WARPBELL_D static extent block(u64 number) { return extent{lba(number), 1}; }
    WARPBELL_D dma_span part(u32 k) const {
        const u64 bytes = s_.block_bytes();
        return dma_span(args_.buffer).subspan((lane_ * depth_ + k) * bytes, bytes);
    }
    WARPBELL_D u64& word(u32 k) const { return *part(k).template data<u64>(); }
    WARPBELL_D u64 content(u64 number) const { return splitmix64(args_.seed ^ number); }
    WARPBELL_D void check(bool right) const { record().payload = right && record().payload != 2 ? 1 : 2; }

    // Odd lanes compare with something else.
    WARPBELL_D status compares() {
        const status got = read_each(group_, s_, block(lane_), part(0), args_.deadline_ns);
        check(got.ok() && word(0) == content(lane_));
        word(0) ^= lane_ & 1u;
        const status each = compare_each(group_, s_, block(lane_), part(0), args_.deadline_ns);
        record().found = compare(group_, s_, block(0), dma_span(args_.buffer), args_.deadline_ns).bits;
        return each;
    }

    // The first half of the blocks one by one, 16 others in pieces; all are read back.
    WARPBELL_D status writes_zeroes() {
        const status each = write_zeroes_each(group_, s_, block(lane_), args_.deadline_ns);
        const status whole = write_zeroes(group_, s_, {lba(32), 16}, args_.deadline_ns);
        record().found = whole.bits;
        for (u32 k = 0; k < 2; ++k) {
            word(k) = 1;
            const u64 number = lane_ + 32u * k;
            const status got = read_each(group_, s_, block(number), part(k), args_.deadline_ns);
            check(got.ok() && word(k) == (number < 48 ? 0 : content(number)));
        }
        return each;
    }

    // Even lanes have a block, the others none. The list is in the buffer of lane 0.
    WARPBELL_D status deallocates() {
        optional<extent> mine;
        if ((lane_ & 1u) == 0) {
            mine = block(lane_);
        }
        const dma_span list = dma_span(args_.buffer).subspan(args_.flags, 16 * 32);
        const status answer = deallocate(group_, s_, mine, list, args_.deadline_ns);
        group_.sync();
        word(0) = 1;
        const status got = read_each(group_, s_, block(lane_), part(0), args_.deadline_ns);
        check(got.ok());
        record().found = word(0);
        return answer;
    }

    WARPBELL_D status forces() {
        word(0) = ~content(lane_);
        const status written = write_fua_each(group_, s_, block(lane_), part(0), args_.deadline_ns);
        word(0) = 0;
        const status got = read_fua_each(group_, s_, block(lane_), part(0), args_.deadline_ns);
        check(got.ok() && word(0) == ~content(lane_));
        return written;
    }

    // Four tokens at a time, again as soon as one is answered.
    WARPBELL_D status waits_for_any() {
        io_token tokens[4];
        status result;
        for (u32 k = 0; k < 4; ++k) {
            tokens[k] = read_each_async(group_, s_, block(lane_ * 4u + k), part(k), args_.deadline_ns);
        }
        u32 answered = 0;
        for (u32 n = 0; n < 2; ++n) {
            const any_status one = wait_any(group_, s_, tokens, args_.deadline_ns);
            if (one.index == any_status::none) {
                return one.result;
            }
            answered |= 1u << one.index;
            result = one.result.ok() ? result : one.result;
            check(!one.result.ok() || word(one.index) == content(lane_ * 4u + one.index));
        }
        const status rest = wait_all(group_, s_, tokens, args_.deadline_ns);
        for (u32 k = 0; k < 4; ++k) {
            check(!rest.ok() || word(k) == content(lane_ * 4u + k));
        }
        record().found = port::population(answered);
        const any_status nothing = wait_any(group_, s_, tokens, args_.deadline_ns);
        check(nothing.index == any_status::none && nothing.result.ok());
        return result.ok() ? rest : result;
    }

    // `flags`: first waits until it must have been answered.
    WARPBELL_D status cancels() {
        io_token token = read_each_async(group_, s_, block(lane_), part(0), args_.deadline_ns);
        const u64 begin_ns = port::clock_ns();
        while (args_.flags != 0 && port::clock_ns() - begin_ns < args_.submit_deadline_ns) {
            port::pause();
        }
        const status answer = cancel_each(group_, s_, move(token));
        check(!answer.ok() || word(0) == content(lane_));
        check(token.valid() == false);
        return answer;
    }

    // Lane n has block n, without those of the mask `flags`; writes them, reads them back.
    WARPBELL_D status merges() {
        optional<extent> mine;
        if ((args_.flags >> lane_ & 1u) == 0) {
            mine = block(lane_);
        }
        const dma_span data = dma_span(args_.buffer).subspan(lane_ * s_.block_bytes(), s_.block_bytes());
        u64& first = *data.template data<u64>();
        first = ~content(lane_);
        const status written = write_merged(group_, s_, mine, data, args_.deadline_ns);
        first = 0;
        const status got = read_merged(group_, s_, mine, data, args_.deadline_ns);
        check(got.ok() && first == (mine ? ~content(lane_) : 0));
        record().found = got.bits;
        return written;
    }

    // One I/O of 64 blocks and one of 2 blocks for each lane, both in pieces, across pages.
    WARPBELL_D status splits() {
        const u64 bytes = s_.block_bytes();
        const dma_span data = dma_span(args_.buffer).subspan(8, 64 * bytes);
        const status whole = read(group_, s_, {lba(0), 64}, data, args_.deadline_ns);
        for (u64 i = lane_; whole.ok() && i < 64; i += 32) {
            check(*data.subspan(i * bytes, bytes).template data<u64>() == content(i));
        }
        group_.sync();
        const dma_span mine = data.subspan(2 * lane_ * bytes, 2 * bytes);
        const status each = read_each(group_, s_, extent{lba(2 * lane_ + 1), 2}, mine, args_.deadline_ns);
        for (u32 i = 0; each.ok() && i < 2; ++i) {
            check(*mine.subspan(i * bytes, bytes).template data<u64>() == content(2 * lane_ + 1 + i));
        }
        record().found = each.bits;
        return whole;
    }

    const warpbell_queue_test_args& args_;
    const lanes group_;
    session<Mode> s_;
    const u32 lane_, depth_;
};

} // namespace kernels

WARPBELL_KERNEL(io_call_test, warpbell_queue_test_args) {
    if ((args.batch >> wb::port::lane() & 1u) == 0) {
        return;
    }
    if (args.ns.sharing == WARPBELL_SHARING_EXCLUSIVE) {
        kernels::caller<wb::sharing::exclusive>(args).run();
    } else {
        kernels::caller<wb::sharing::shared>(args).run();
    }
}
