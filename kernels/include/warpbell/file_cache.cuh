// A file as what a page cache lies over (cache.cuh): its pages, for reading. An array over them begins at a
// byte of the file.
//
//   wb::file_source source(ssd, wb::file(args.file));
//   wb::page_cache<decltype(source), wb::page_access::read_only> pages(warp, args.cache, source, buffer);
//   wb::array_view<float, decltype(pages)> x(pages, first_byte, count);
//
// `warpbell::PageCache::of_file` makes the cache: page p is bytes [p * page_bytes, ..) of the file. Where the
// blocks of a page lie is looked up when it is read, by a command for each extent that it meets; a hit costs
// what it costs over a namespace. Holes are zeroes, and so is what is behind the end of the file in its last
// page. What is in more than one piece, or has the end in it, is not read ahead (prefetch.cuh).
#pragma once

#include "cache.cuh"
#include "file.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

// A way to the namespace, and a file there. Refers to the session, which must outlive it.
template <sharing Mode, class Retry = no_retry> class file_source {
  public:
    WARPBELL_D file_source(session<Mode, Retry>& ssd, const warpbell::file& f) : ssd_(&ssd), file_(f) {}

    WARPBELL_D u32 block_bytes() const { return ssd_->block_bytes(); }
    WARPBELL_D session<Mode, Retry>& ssd() const { return *ssd_; }
    WARPBELL_D const warpbell::file& file() const { return file_; }

  private:
    session<Mode, Retry>* ssd_;
    warpbell::file file_;
};

namespace detail {

// Blocks are those of the file here.
template <sharing Mode, class Retry> struct backing<file_source<Mode, Retry>> {
    using source_type = file_source<Mode, Retry>;
    using span_type = dma_span;
    using of_ssd = backing<session<Mode, Retry>>;
    static constexpr bool writable = false;

    // Before anything else of the reference is believed.
    WARPBELL_D static bool fits(const source_type& s) {
        return s.file().fits() && s.file().block_bytes() == s.block_bytes();
    }
    template <class Group>
    WARPBELL_D static status move(const Group& group, source_type& s, opcode op, optional<extent> where,
                                  const span_type& data) {
        if (op != opcode::read) {
            return code::read_only;
        }
        if (!fits(s)) {
            return code::invalid_field;
        }
        const optional<u64> block = where ? optional<u64>(where->start.value) : optional<u64>();
        return read_file(group, s.ssd(), s.file(), block, data, 0);
    }
    template <class Group> WARPBELL_D static status refusal(const Group& group, source_type& s) {
        return of_ssd::refusal(group, s.ssd());
    }
    // Nothing was written.
    template <class Group> WARPBELL_D static status flush(const Group&, source_type&) { return status(); }

    // ---- reads that nobody waits for yet

    using token_type = typename of_ssd::token_type;
    // What one command does, and nothing more.
    WARPBELL_D static optional<extent> in_one(const source_type& s, extent where) {
        const u64 end = (where.start.value + where.blocks) << s.file().block_shift();
        if (!fits(s) || end > s.file().bytes()) {
            return nullopt;
        }
        const file_place place = s.file().find(where.start.value);
        if (place.hole || place.blocks < where.blocks) {
            return nullopt;
        }
        return extent{lba(place.lba), where.blocks};
    }
    WARPBELL_D static bool may_start(source_type& s, extent where) {
        const optional<extent> one = in_one(s, where);
        return one && of_ssd::may_start(s.ssd(), *one);
    }
    template <class Group>
    WARPBELL_D static token_type start(const Group& group, source_type& s, optional<extent> where,
                                       const span_type& data) {
        return of_ssd::start(group, s.ssd(), where ? in_one(s, *where) : optional<extent>(), data);
    }
    template <class Group>
    WARPBELL_D static optional<status> try_finish(const Group& group, source_type& s, token_type& token,
                                                  u64 age_ns) {
        return of_ssd::try_finish(group, s.ssd(), token, age_ns);
    }
    template <class Group>
    WARPBELL_D static status finish(const Group& group, source_type& s, token_type&& token, u64 timeout_ns) {
        return of_ssd::finish(group, s.ssd(), warpbell::move(token), timeout_ns);
    }
};

} // namespace detail

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
