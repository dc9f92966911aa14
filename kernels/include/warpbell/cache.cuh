// A cache of pages of a namespace, a volume or a file (file_cache.cuh), in memory of the GPU. What it keeps
// of a page lies in the line that has it: nothing grows with the SSD.
//
//   wb::page_cache<decltype(ssd)> pages(warp, args.cache, ssd, wb::dma_span(args.buffer));
//   if (auto page = pages.acquire(warp, 7)) { use(page.data<float>()[port::lane()]); }
//   wb::status s = pages.flush(warp);
//   pages.detach(warp);
//
// | call                                | arguments             | answer                                    |
// | ----------------------------------- | --------------------- | ----------------------------------------- |
// | acquire (group, page)               | the same in each lane | a guard: the page stays until it goes     |
// | use_each (group, page, stores, use) | each lane its own     | each lane its own; `use` saw the data     |
// | flush (group)                       |                       | what was stored before is on the SSD      |
//
// Lanes of one page share one lookup: on a hit one addition pins the line and one read-modify-write gives it
// back. A guard pins once. Words of arrays are read without a pin (`read_word`). A page that is not there is
// read by the first who wants it, the others wait. Pages that a group wants in one call are read together.
//
// Lines are taken by a policy (evict.cuh). A dirty page is written first, and found until the write is
// answered. Where that fails the page stays, dirty: error_status of the report says so, and the next flush
// tries again and answers. Where the SSD may still use a line's memory (status::buffer_in_use), the line is
// never used again.
//
// Every wait for a line or for other warps ends by its deadline, warpbell_cache_ref::timeout_ns unless the
// call names one: `no_room` where all lines were pinned for that long, `not_submitted` where other warps were
// reading for that long. A flush begins no write after it. A call's own commands have the queue's deadline,
// each, and it waits for those that it has begun. Nobody waits for a line with the line of another page in
// hand, but for guards, which are the caller's: a warp that holds more guards than there are lines is
// told `no_room`.
#pragma once

#include "evict.cuh"
#include "impl/back_off.cuh"
#include "volume.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

enum class page_access : u32 {
    read_only,  // what would store is refused
    write_once, // pages begin as zeroes and are never read: for guards, of pages that are written as a whole
    read_write,
};

namespace detail {

// What a cache lies over: a session, or a volume.
template <class Source> struct backing;
template <sharing Mode, class Retry> struct backing<session<Mode, Retry>> {
    using source_type = session<Mode, Retry>;
    using span_type = dma_span;
    static constexpr bool writable = true;
    template <class Group>
    WARPBELL_D static status move(const Group& group, source_type& s, opcode op, optional<extent> where,
                                  const span_type& data) {
        if constexpr (Retry::enabled) {
            return run_each(group, s, op, where, data, 0);
        } else {
            return run_in_rounds(group, s, op, where, data);
        }
    }
    // A page is one command, unless the SSD takes less at once: then its pieces follow each other, all lanes'
    // together.
    template <class Group>
    WARPBELL_D static status run_in_rounds(const Group& group, source_type& s, opcode op,
                                           optional<extent> where, const span_type& data) {
        extent all = {where ? where->start : lba(), where ? where->blocks : 0u};
        status result = where ? check_whole(s, op, all, data) : status();
        u32 next = result.ok() ? 0u : all.blocks;
        backoff patience;
        port::keep_in_memory(all);
        port::keep_in_memory(next);
        port::keep_in_memory(result);
        WARPBELL_NO_UNROLL
        while (group.ballot(next < all.blocks) != 0) {
            const bool want = next < all.blocks;
            // The deadline is one for all pieces: what is left of a page is not sent after it.
            if (is_over(group, patience) && !mutate::cache_pieces_late) {
                return want ? s.queue().unsent() : result;
            }
            const u32 rest = all.blocks - next, blocks = rest < s.max_blocks() ? rest : s.max_blocks();
            sqe entry = {};
            if (want) {
                const dma_span its = data.subspan(static_cast<u64>(next) * s.block_bytes(),
                                                  static_cast<u64>(blocks) * s.block_bytes());
                result = s.check_data(its, its.bytes());
                if (result.ok()) {
                    entry = s.entry(op, extent{lba(all.start.value + next), blocks}, its);
                }
            }
            io_token token = s.queue().submit(group, want && result.ok(), entry, patience);
            status said;
            (void)s.queue().wait_all(group, token, said, patience);
            result = result.ok() ? said : result;
            next = result.ok() ? next + blocks : all.blocks;
        }
        return result;
    }
    // Why nothing will be sent. With a policy of retries the group moves on to the next queue first.
    template <class Group> WARPBELL_D static status refusal(const Group& group, source_type& s) {
        if (mutate::cache_sent_in_vain) {
            return status();
        }
        const status own = s.queue().refusal();
        const status all = agree(group, own.ok() && s.queue().is_closed() ? status(code::queue_lost) : own);
        if constexpr (Retry::enabled) {
            return all.is(code::queue_lost) && s.retries().most != 0
                       ? agree(group, s.switch_to_successor(group))
                       : all;
        } else {
            return all;
        }
    }
    template <class Group> WARPBELL_D static status flush(const Group& group, source_type& s) {
        return warpbell::flush(group, s);
    }

    // ---- reads that nobody waits for yet

    using token_type = io_token;
    // Not with a lane's last id, which reads that are waited for need, nor on a lost queue.
    WARPBELL_D static bool may_start(source_type& s, extent where) {
        return where.blocks <= s.max_blocks() && s.queue().free_ids() > 1u && !s.queue().refuses();
    }
    // What cannot be submitted now is not.
    template <class Group>
    WARPBELL_D static io_token start(const Group& group, source_type& s, optional<extent> where,
                                     const span_type& data) {
        const bool want = where && s.check(opcode::read, *where, data).ok();
        const sqe entry = want ? s.entry(opcode::read, *where, data) : sqe();
        return s.queue().try_submit(group, want, entry);
    }
    // One that is older than a command may get is given up.
    template <class Group>
    WARPBELL_D static optional<status> try_finish(const Group& group, source_type& s, io_token& token,
                                                  u64 age_ns) {
        (void)s.queue().reap(group);
        return poll_token(group, s, token, age_ns);
    }
    template <class Group>
    WARPBELL_D static status finish(const Group& group, source_type& s, io_token&& token, u64 timeout_ns) {
        return s.queue().wait(group, warpbell::move(token), timeout_ns);
    }
};
template <sharing Mode, u32 Members, class Map, class Retry>
struct backing<volume<Mode, Members, Map, Retry>> {
    using source_type = volume<Mode, Members, Map, Retry>;
    using span_type = volume_span;
    static constexpr bool writable = true;
    template <class Group>
    WARPBELL_D static status move(const Group& group, source_type& v, opcode op, optional<extent> where,
                                  const span_type& data) {
        return v.run(group, op, where, data, false, 0);
    }
    // Each SSD may be asked.
    template <class Group> WARPBELL_D static status refusal(const Group&, source_type&) { return status(); }
    template <class Group> WARPBELL_D static status flush(const Group& group, source_type& v) {
        return v.flush(group, 0);
    }
    using token_type = member_read;
    WARPBELL_D static bool may_start(source_type& v, extent where) { return v.may_start(where); }
    template <class Group>
    WARPBELL_D static member_read start(const Group& group, source_type& v, optional<extent> where,
                                        const span_type& data) {
        return v.start(group, where, data);
    }
    template <class Group>
    WARPBELL_D static optional<status> try_finish(const Group& group, source_type& v, member_read& read,
                                                  u64 age_ns) {
        return v.try_finish(group, read, age_ns);
    }
    template <class Group>
    WARPBELL_D static status finish(const Group& group, source_type& v, member_read&& read, u64 timeout_ns) {
        return v.finish(group, warpbell::move(read), timeout_ns);
    }
};

// What a warp does while it waits for others: nothing.
struct nothing_else {
    WARPBELL_D void operator()() const {}
};

// A condition that is known when the kernel is compiled.
template <bool Value> struct known {
    WARPBELL_D constexpr operator bool() const { return Value; }
};
// Of lanes with `here` that share a page: whether one of them has changed it.
template <class Group> WARPBELL_D bool any_stores(const Group& group, bool here, u32 same, bool stores) {
    return (group.ballot(here && stores) & same) != 0;
}
template <class Group, bool Stores> WARPBELL_D bool any_stores(const Group&, bool here, u32, known<Stores>) {
    return Stores && here;
}

} // namespace detail

namespace experimental {
template <class Cache, u32 Cap, u32 Streams> class prefetcher;
}

// A page that stays while this lives. Of all lanes of a group, which must be together where it goes.
template <class Cache, class Group> class page_guard {
  public:
    WARPBELL_D page_guard(const Group& group, Cache& cache, u64 page, u64 timeout_ns)
        : group_(group), cache_(cache), result_(cache.hold(group, page, line_, timeout_ns)) {}
    page_guard(const page_guard&) = delete;
    page_guard& operator=(const page_guard&) = delete;
    WARPBELL_D ~page_guard() { release(); }

    // The page is here. It is not: `result` says why.
    WARPBELL_D explicit operator bool() const { return line_ != cache_lines::none; }
    WARPBELL_D status result() const { return result_; }
    template <class T> WARPBELL_D const T* data() const { return cache_.template memory<const T>(line_); }
    // To store to it: the page is written back, whichever lane asked. Null: it is not here, or not to be
    // changed.
    template <class T> WARPBELL_D T* writable() {
        if (line_ == cache_lines::none || !Cache::may_store) {
            return nullptr;
        }
        stored_ = true;
        return cache_.template memory<T>(line_);
    }
    // Releases the page before the end. Made by the group.
    WARPBELL_D void release() {
        if (line_ != cache_lines::none) {
            const bool stored = group_.ballot(stored_) != 0;
            group_.sync();
            cache_.drop(group_.is_leader(), line_, stored);
            line_ = cache_lines::none;
        }
    }

  private:
    const Group group_;
    Cache& cache_;
    u32 line_ = cache_lines::none;
    bool stored_ = false;
    status result_;
};

// A warp's way to a cache. `memory`: page_bytes for each line, a buffer of the source's; of all warps the
// same. The source must outlive it.
template <class Source, page_access Access = page_access::read_write, class Policy = clock_sweep>
class page_cache {
    using backing = detail::backing<Source>;
    static_assert(backing::writable || Access == page_access::read_only,
                  "a cache over this source is for reading");

  public:
    using span_type = typename backing::span_type;
    using policy_type = Policy;
    static constexpr bool may_store = Access != page_access::read_only || mutate::cache_read_only_stored;
    static constexpr bool reads = Access != page_access::write_once;
    static constexpr bool reads_words = reads; // `read_word` is there

    template <class Group>
    WARPBELL_D page_cache(const Group& group, const warpbell_cache_ref& ref, Source& source,
                          const span_type& memory)
        : lines_(ref), source_(source), memory_(memory), usable_(fits(group_of(group), ref, source, memory)),
          usable_pages_(usable_ ? ref.pages : 0) {}

    WARPBELL_D u64 pages() const { return lines_.ref().pages; }
    // None where the cache does not fit its source.
    WARPBELL_D u64 usable_pages() const { return usable_pages_; }
    WARPBELL_D u32 page_bytes() const { return 1u << lines_.ref().page_shift; }
    WARPBELL_D u32 lines() const { return lines_.count(); }

    // A guard, which says whether the page is here. Made by the group.
    template <class Group>
    WARPBELL_D page_guard<page_cache, group_type<Group>> acquire(const Group& group, u64 page,
                                                                 u64 timeout_ns = 0) {
        return page_guard<page_cache, group_type<Group>>(group_of(group), *this, page, timeout_ns);
    }
    // Calls use(u8* data) in each lane with a page, once, while the page is there. `stores`: it changes the
    // data. Lanes with nothing to do pass nullopt and get success. `use` may meet no other lane.
    template <class Group, class Use, class Meanwhile = detail::nothing_else>
    WARPBELL_D status use_each(const Group& group, optional<u64> page, bool stores, Use use,
                               u64 timeout_ns = 0, Meanwhile meanwhile = Meanwhile());
    // What was stored, by whoever has released the page before, is on the SSD, and durable there. One
    // answer for the group; a failure may concern any page.
    template <class Group> WARPBELL_D status flush(const Group& group, u64 timeout_ns = 0);

    // A failure that no call could answer: noted in the report, if it is the first.
    WARPBELL_D void note(status why, u64 page) const;
    // Adds to the counts. Last call.
    template <class Group> WARPBELL_D void detach(const Group& group);

    // ---- for arrays and guards

    template <class T> WARPBELL_D T* memory(u32 line) const {
        return reinterpret_cast<T*>(memory_.template data<u8>() + offset(line));
    }
    template <class Group, class Meanwhile = detail::nothing_else>
    WARPBELL_D status hold(const Group& group, u64 page, u32& line, u64 timeout_ns,
                           Meanwhile meanwhile = Meanwhile());
    // use_each of pages that `check` lets pass; `held` are values of the caller, which are in no registers
    // while a page is missing.
    template <class Group, class Stores, class Use, class Meanwhile, class... Held>
    WARPBELL_D status use_each_holding(const Group& group, optional<u64> page, Stores stores, Use& use,
                                       u64 timeout_ns, Meanwhile& meanwhile, Held&... held);
    // The word at byte `at` of the pages, a multiple of its size, of each lane with `wants`; where its page
    // is there. No pin is taken, so that lanes and warps that read one page never wait for each other.
    template <class Group, class Word>
    WARPBELL_D bool read_word(const Group& group, bool wants, u64 at, Word& word);
    // Releases a pin, in the lane that has it.
    WARPBELL_D void drop(bool has, u32 line, bool stored) const {
        if (has) {
            lines_.unpin<Policy>(line, stored && may_store, Policy::marks_use && lines_.is_used(line));
        }
    }
    // Why a page may not be asked for.
    WARPBELL_D status outside() const { return usable_ ? code::out_of_range : code::invalid_field; }
    WARPBELL_D status check(u64 page, bool stores) const;

  private:
    template <class, u32, u32> friend class experimental::prefetcher;

    // What a lane has found out of its page.
    struct found_page {
        enum class at : u32 {
            away = static_cast<u32>(cache_lines::found::nothing),
            pinned = static_cast<u32>(cache_lines::found::ready),
            loading = static_cast<u32>(cache_lines::found::loading),
            busy = static_cast<u32>(cache_lines::found::busy),
            ours = static_cast<u32>(cache_lines::found::ours),
            failed,
            crowded,
        } now = at::away;
        u32 line = cache_lines::none;
        u64 state = 0; // of the line before it was claimed
        status answer;
    };
    // The rest of a call, in the lane's memory, once a page was missing.
    struct page_call {
        WARPBELL_D page_call(const found_page& first, status so_far) : mine(first), result(so_far) {}
        found_page mine;
        status result;
        u32 asking = 0; // lanes that had no page yet when it went on last; 0: it never did
        u64 begin_ns = 0, left_ns = 0;
        back_off wait;
    };

    template <class Group>
    WARPBELL_D static bool fits(const Group& group, const warpbell_cache_ref& ref, Source& source,
                                const span_type& memory);
    WARPBELL_D u64 offset(u32 line) const { return static_cast<u64>(line) << lines_.ref().page_shift; }
    WARPBELL_D extent blocks_of(u64 page) const {
        const u32 blocks = page_bytes() / source_.block_bytes();
        return extent{lba(lines_.ref().first_block + page * blocks), blocks};
    }
    template <class Group>
    WARPBELL_NOINLINE status transfer(const Group& group, opcode op, bool mine, u64 page, u32 line);
    WARPBELL_D static status answer_of(const found_page& got);
    WARPBELL_D found_page look_up(bool leads, u64 page, bool& used);
    WARPBELL_D found_page look_again(bool leads, u64 page);
    WARPBELL_D void claim(found_page& mine, u64 page);
    template <class Group> WARPBELL_D status fetch(const Group& group, u32 away, found_page& mine, u64& page);
    template <class Group> WARPBELL_D void write_back(const Group& group, found_page& mine, u64& page);
    template <class Group> WARPBELL_D void fill(const Group& group, found_page& mine, u64& page);
    template <class Group, class Meanwhile>
    WARPBELL_D void await(const Group& group, found_page& mine, u64 timeout_ns, Meanwhile& meanwhile);
    template <class Group, class Meanwhile>
    WARPBELL_D void resolve(const Group& group, bool& open, u32 same, u64& page, page_call& call,
                            Meanwhile& meanwhile);
    template <class Group, class Stores, class Use>
    WARPBELL_D bool use_found(const Group& group, bool open, u32 same, u32 first, Stores stores,
                              const found_page& mine, bool used, Use& use);
    template <class Group, class Meanwhile>
    WARPBELL_NOINLINE bool get_missing(const Group& group, bool open, u32 same, u64 page, u64 timeout_ns,
                                       page_call& call, Meanwhile& meanwhile);
    template <class Group>
    WARPBELL_D bool end_failed(const Group& group, bool open, u32 same, page_call& call);
    template <class Group>
    WARPBELL_D bool write_line(const Group& group, bool open, u32 line, bool late, status& result);
    template <class Group> WARPBELL_D void zero(const Group& group, u32 filling, u32 line);

    cache_lines lines_;
    Source& source_;
    const span_type memory_;
    const bool usable_; // alike in all lanes
    const u64 usable_pages_;
    u32 hits_ = 0, misses_ = 0, write_backs_ = 0;
};

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell

#include "impl/cache.cuh"
