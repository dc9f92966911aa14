// Kernel `io_call_test`: the calls of deallocate.cuh, outstanding.cuh and coalesce.cuh. The lanes of the mask
// `batch` call together, each with `async_depth` blocks of the buffer; bits 7:0 of `mode` say what, those
// above in which form (of `cancel`: of which command). A lane's record has its status, in `payload` whether
// the data was right (1) or not (2), in `found` what else the mode tells.
#include "src/abi_check.h"
#include "src/common.cuh"

namespace kernels {

enum class call : u32 {
    compare,
    write_zeroes,
    deallocate,
    fua,
    any,
    cancel,
    coalesced,
    split,
    each,
    flush,
    alone,
    mixed
};
// A call that waits, a token, an io_request.
enum class form : u32 { waits, token, request };

template <sharing Mode> class caller {
  public:
    WARPBELL_D explicit caller(const warpbell_queue_test_args& args)
        : args_(args), group_(args.batch), s_(group_, args.ns, 0), lane_(port::lane()),
          depth_(args.async_depth), form_(static_cast<form>(args.mode >> 8)) {}

    WARPBELL_D void run() {
        status answer;
        switch (static_cast<call>(args_.mode & 255u)) {
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
        case call::coalesced:
            answer = coalesces();
            break;
        case call::split:
            answer = splits();
            break;
        case call::flush:
            answer = flushes();
            break;
        case call::alone:
            answer = calls_alone();
            break;
        case call::mixed:
            answer = waits_for_mixed();
            break;
        default:
            answer = read_each(group_, s_, block(lane_), part(0), args_.timeout_ns);
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

    // ---- a call in the form that is asked for

    WARPBELL_D status each_of(io_token&& token) {
        return wait_each(group_, s_, move(token), args_.timeout_ns);
    }
    WARPBELL_D status all_of(io_token&& token) { return wait(group_, s_, move(token), args_.timeout_ns); }
    WARPBELL_D status end(status begun) {
        return begun.ok() ? wait(group_, s_, request_, args_.timeout_ns) : begun;
    }
    WARPBELL_D status compares_each(extent where, const dma_span& with) {
        return form_ == form::waits   ? run_each(group_, s_, command::compare(where, with), args_.timeout_ns)
               : form_ == form::token ? each_of(submit_each(group_, s_, command::compare(where, with)))
                                      : end(submit_each(group_, s_, request_, command::compare(where, with)));
    }
    WARPBELL_D status compares_all(extent where, const dma_span& with) {
        return form_ == form::waits
                   ? warpbell::run(group_, s_, command::compare(where, with), args_.timeout_ns)
               : form_ == form::token ? all_of(submit(group_, s_, command::compare(where, with)))
                                      : end(submit(group_, s_, request_, command::compare(where, with)));
    }
    WARPBELL_D status zeroes_each(extent where) {
        return form_ == form::waits   ? run_each(group_, s_, command::write_zeroes(where), args_.timeout_ns)
               : form_ == form::token ? each_of(submit_each(group_, s_, command::write_zeroes(where)))
                                      : end(submit_each(group_, s_, request_, command::write_zeroes(where)));
    }
    WARPBELL_D status zeroes_all(extent where) {
        return form_ == form::waits
                   ? warpbell::run(group_, s_, command::write_zeroes(where), args_.timeout_ns)
               : form_ == form::token ? all_of(submit(group_, s_, command::write_zeroes(where)))
                                      : end(submit(group_, s_, request_, command::write_zeroes(where)));
    }
    WARPBELL_D status forces_each(extent to, const dma_span& from) {
        return form_ == form::waits
                   ? run_each(group_, s_, command::write(to, from, command::fua), args_.timeout_ns)
               : form_ == form::token
                   ? each_of(submit_each(group_, s_, command::write(to, from, command::fua)))
                   : end(submit_each(group_, s_, request_, command::write(to, from, command::fua)));
    }
    WARPBELL_D status forces_all(extent to, const dma_span& from) {
        return form_ == form::waits
                   ? warpbell::run(group_, s_, command::write(to, from, command::fua), args_.timeout_ns)
               : form_ == form::token
                   ? all_of(submit(group_, s_, command::write(to, from, command::fua)))
                   : end(submit(group_, s_, request_, command::write(to, from, command::fua)));
    }
    WARPBELL_D status brings_each(extent from, const dma_span& to) {
        return form_ == form::waits
                   ? run_each(group_, s_, command::read(from, to, command::fua), args_.timeout_ns)
               : form_ == form::token
                   ? each_of(submit_each(group_, s_, command::read(from, to, command::fua)))
                   : end(submit_each(group_, s_, request_, command::read(from, to, command::fua)));
    }
    WARPBELL_D status brings_all(extent from, const dma_span& to) {
        return form_ == form::waits
                   ? warpbell::run(group_, s_, command::read(from, to, command::fua), args_.timeout_ns)
               : form_ == form::token
                   ? all_of(submit(group_, s_, command::read(from, to, command::fua)))
                   : end(submit(group_, s_, request_, command::read(from, to, command::fua)));
    }

    // ---- what the modes do

    // Odd lanes compare with something else.
    WARPBELL_D status compares() {
        const status got = read_each(group_, s_, block(lane_), part(0), args_.timeout_ns);
        check(got.ok() && word(0) == content(lane_));
        word(0) ^= lane_ & 1u;
        const status each = compares_each(block(lane_), part(0));
        record().found = compares_all(block(0), dma_span(args_.buffer)).bits;
        return each;
    }

    // The first half of the blocks one by one, 16 others in pieces; all are read back.
    WARPBELL_D status writes_zeroes() {
        const status each = zeroes_each(block(lane_));
        const status whole = zeroes_all({lba(32), 16});
        record().found = whole.bits;
        for (u32 k = 0; k < 2; ++k) {
            word(k) = 1;
            const u64 number = lane_ + 32u * k;
            const status got = read_each(group_, s_, block(number), part(k), args_.timeout_ns);
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
        const status answer = form_ == form::waits ? deallocate(group_, s_, mine, list, args_.timeout_ns)
                                                   : all_of(submit_deallocate(group_, s_, mine, list));
        group_.sync();
        word(0) = 1;
        const status got = read_each(group_, s_, block(lane_), part(0), args_.timeout_ns);
        check(got.ok());
        record().found = word(0);
        return answer;
    }

    // Each lane a block of its own, and 32 blocks behind them all together.
    WARPBELL_D status forces() {
        const extent there{lba(32), 32};
        const dma_span all = dma_span(args_.buffer).subspan(0, 32u * s_.block_bytes());
        u64& mine = *all.subspan(lane_ * s_.block_bytes(), 8).template data<u64>();
        mine = ~content(32u + lane_);
        group_.sync();
        record().found = forces_all(there, all).bits;
        mine = 0;
        group_.sync();
        const status brought = brings_all(there, all);
        check(brought.ok() && mine == ~content(32u + lane_));
        group_.sync();
        word(0) = ~content(lane_);
        const status written = forces_each(block(lane_), part(0));
        word(0) = 0;
        const status got = brings_each(block(lane_), part(0));
        check(got.ok() && word(0) == ~content(lane_));
        return written;
    }

    // What was written before is durable then.
    WARPBELL_D status flushes() {
        word(0) = ~content(lane_);
        const status written = write_each(group_, s_, block(lane_), part(0), args_.timeout_ns);
        check(written.ok());
        return form_ == form::waits   ? flush(group_, s_, args_.timeout_ns)
               : form_ == form::token ? all_of(submit(group_, s_, command::flush()))
                                      : end(submit(group_, s_, request_, command::flush()));
    }

    // Each call for one thread; it has a group of its own.
    WARPBELL_D status calls_alone() {
        const bool waits = form_ == form::waits;
        const extent mine = block(lane_);
        const dma_span data = part(0), list = part(1).subspan(0, 16);
        word(0) = ~content(lane_);
        status said = waits ? warpbell::run(s_, command::write(mine, data, command::fua))
                            : wait(s_, submit(s_, command::write(mine, data, command::fua)));
        status next = waits ? warpbell::run(s_, command::compare(mine, data))
                            : wait(s_, submit(s_, command::compare(mine, data)));
        said = detail::worse_of(said, next);
        word(0) = 0;
        next = waits ? warpbell::run(s_, command::read(mine, data, command::fua))
                     : wait(s_, submit(s_, command::read(mine, data, command::fua)));
        said = detail::worse_of(said, next);
        check(word(0) == ~content(lane_));
        next = waits ? warpbell::run(s_, command::write_zeroes(mine))
                     : wait(s_, submit(s_, command::write_zeroes(mine)));
        said = detail::worse_of(said, next);
        next = read(s_, mine, data);
        said = detail::worse_of(said, next);
        check(word(0) == 0);
        next = waits ? deallocate(this_thread(), s_, mine, list)
                     : wait(s_, submit_deallocate(this_thread(), s_, mine, list));
        said = detail::worse_of(said, next);
        next = waits ? flush(s_) : wait(s_, submit(s_, command::flush()));
        return detail::worse_of(said, next);
    }

    // One command of each kind in flight at once, answered as they come. The flush is the first lane's.
    WARPBELL_D status waits_for_mixed() {
        word(1) = ~content(lane_ + 64u);
        io_token tokens[4] = {
            submit_each(group_, s_, command::compare(block(lane_), part(0))),
            submit_each(group_, s_, command::write(block(lane_ + 64u), part(1), command::fua)),
            submit_each(group_, s_, command::write_zeroes(block(lane_ + 32u))),
            submit(group_, s_, command::flush())};
        status worst;
        u32 answered = 0;
        for (;;) {
            const any_status one = wait_any(group_, s_, tokens, args_.timeout_ns);
            const bool none = one.index == any_status::none;
            // Of the first the data differs: nobody has read it.
            const bool right =
                none ? one.result.ok()
                     : one.result.ok() == (one.index != 0) && (one.index != 0 || one.result.differs());
            check(right);
            worst = right ? worst : one.result;
            answered += none ? 0u : 1u;
            if (group_.ballot(!none) == 0) {
                break;
            }
        }
        record().found = answered;
        const status rest = wait_all(group_, s_, tokens, args_.timeout_ns);
        return worst.ok() ? rest : worst;
    }

    // Four tokens at a time, again as soon as one is answered.
    WARPBELL_D status waits_for_any() {
        io_token tokens[4];
        status result;
        for (u32 k = 0; k < 4; ++k) {
            tokens[k] =
                submit_each(group_, s_, command::read(block(lane_ * 4u + k), part(k)), args_.timeout_ns);
        }
        u32 answered = 0;
        for (u32 n = 0; n < 2; ++n) {
            const any_status one = wait_any(group_, s_, tokens, args_.timeout_ns);
            if (one.index == any_status::none) {
                return one.result;
            }
            answered |= 1u << one.index;
            result = one.result.ok() ? result : one.result;
            check(!one.result.ok() || word(one.index) == content(lane_ * 4u + one.index));
        }
        const status rest = wait_all(group_, s_, tokens, args_.timeout_ns);
        for (u32 k = 0; k < 4; ++k) {
            check(!rest.ok() || word(k) == content(lane_ * 4u + k));
        }
        record().found = port::population(answered);
        const any_status nothing = wait_any(group_, s_, tokens, args_.timeout_ns);
        check(nothing.index == any_status::none && nothing.result.ok());
        return result.ok() ? rest : result;
    }

    // A command of the kind that the mode has above its call.
    WARPBELL_D io_token start() {
        switch (args_.mode >> 8) {
        case 0:
            return submit_each(group_, s_, command::read(block(lane_), part(0)));
        case 1:
            return submit_each(group_, s_, command::write(block(lane_), part(0)));
        case 2:
            return submit_each(group_, s_, command::compare(block(lane_), part(0)));
        case 3:
            return submit_each(group_, s_, command::write_zeroes(block(lane_)));
        case 4:
            return submit_each(group_, s_, command::read(block(lane_), part(0), command::fua));
        case 5:
            return submit_each(group_, s_, command::write(block(lane_), part(0), command::fua));
        case 6:
            return submit_deallocate(group_, s_, block(lane_), dma_span(args_.buffer));
        default:
            return submit(group_, s_, command::flush());
        }
    }
    // `flags`: first waits until it must have been answered.
    WARPBELL_D status cancels() {
        io_token token = start();
        const u64 begin_ns = port::clock_ns();
        while (args_.flags != 0 && port::clock_ns() - begin_ns < args_.submit_timeout_ns) {
            port::pause();
        }
        // Of one command for all lanes each has the answer.
        const bool of_all = args_.mode >> 8 >= 6u;
        const status answer = of_all ? cancel(group_, s_, move(token)) : cancel_each(group_, s_, move(token));
        const bool reads = args_.mode >> 8 == 0 || args_.mode >> 8 == 4u;
        check(!answer.ok() || !reads || word(0) == content(lane_));
        check(token.valid() == false);
        return answer;
    }

    // Lane n has block n, without those of the mask `flags`; writes them, reads them back.
    WARPBELL_D status coalesces() {
        optional<extent> mine;
        if ((args_.flags >> lane_ & 1u) == 0) {
            mine = block(lane_);
        }
        const dma_span data = dma_span(args_.buffer).subspan(lane_ * s_.block_bytes(), s_.block_bytes());
        u64& first = *data.template data<u64>();
        first = ~content(lane_);
        const status written = run_coalesced(group_, s_, command::write(mine, data), args_.timeout_ns);
        first = 0;
        const status got = run_coalesced(group_, s_, command::read(mine, data), args_.timeout_ns);
        check(got.ok() && first == (mine ? ~content(lane_) : 0));
        record().found = got.bits;
        return written;
    }

    // One I/O of 64 blocks and one of 2 blocks for each lane, both in pieces, across pages.
    WARPBELL_D status splits() {
        const u64 bytes = s_.block_bytes();
        const dma_span data = dma_span(args_.buffer).subspan(8, 64 * bytes);
        const status whole = read(group_, s_, {lba(0), 64}, data, args_.timeout_ns);
        for (u64 i = lane_; whole.ok() && i < 64; i += 32) {
            check(*data.subspan(i * bytes, bytes).template data<u64>() == content(i));
        }
        group_.sync();
        const dma_span mine = data.subspan(2 * lane_ * bytes, 2 * bytes);
        const status each = read_each(group_, s_, extent{lba(2 * lane_ + 1), 2}, mine, args_.timeout_ns);
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
    const form form_;
    io_request<2> request_;
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
