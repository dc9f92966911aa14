// The device side of the programs in this folder: the same code over data that lies on an SSD behind a page
// cache, and over the same data in memory.
//
//   template <class Data> WARPBELL_D void add(Data& data, const add_args& args) {
//       auto x = data.template array<float>(args.x, args.count);     // reads like array_view
//       ...
//       data.advance(32);                                            // for the progress bar
//   }
//   WARPBELL_PROGRAM(add, add_args, read_write)                      // kernels add_cached and add_loaded
//
// `add_args` begins with `programs::stage_ref stage`, which the host fills in. A block is one warp.
#pragma once

// 64 registers: what does not fit belongs to pages that are missing.
#if !defined(WARPBELL_MIN_BLOCKS)
#define WARPBELL_MIN_BLOCKS 4
#endif

#include <warpbell/array.cuh>
#include <warpbell/file_cache.cuh>
#include <warpbell/warpbell.cuh>

// A call that is compiled once for each type, however often a program makes it: the whole cache is in it.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define PROGRAM_CALL __device__ __noinline__
#else
#define PROGRAM_CALL __attribute__((noinline))
#endif

namespace programs {
using namespace warpbell;
using port::u32;
using port::u64;
using port::u8;

// As `StageRef` in examples/src/stage.rs.
struct stage_ref {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref buffer; // of the cache's pages
    warpbell_cache_ref cache;   // its first byte is that of the data
    u64 loaded;                 // all data in memory, for the kernels that are named _loaded
    u64 notes;                  // a status of 32 bits, then what each warp has done, 32 bits each
    warpbell_file_ref file;     // with PROGRAM_OF_FILE: the data
};

// What a warp tells the host while it runs.
class notes {
  public:
    WARPBELL_D explicit notes(const stage_ref& stage) : words_(reinterpret_cast<u32*>(stage.notes)) {}

    // So much more is done. By the whole warp.
    WARPBELL_D void advance(u32 steps) {
        done_ += steps;
        if (port::lane() == 0) {
            port::store_relaxed_sys(words_ + 1 + port::block_index(), done_);
        }
    }
    // Whether this succeeded. The first failure of all ends the program on the host, after the kernel.
    WARPBELL_D bool good(status said) {
        if (!said.ok()) {
            (void)port::cas_relaxed_sys(words_, 0, said.bits);
        }
        return said.ok();
    }
    // Whether it did in every lane. By the whole warp.
    WARPBELL_D bool all_good(status said) { return this_warp().ballot(!good(said)) == 0; }

  private:
    u32* const words_;
    u32 done_ = 0;
};

// The calls of array_view, each a call: programs of several arrays would take minutes to compile else.
template <class T, class Cache> class cached_array {
  public:
    WARPBELL_D cached_array(Cache& cache, u64 first_byte, u64 count) : view_(cache, first_byte, count) {}

    WARPBELL_D u64 size() const { return view_.size(); }
    template <class Group>
    PROGRAM_CALL status try_load(const Group& group, optional<u64> index, T& value, u64 timeout_ns = 0) {
        return view_.try_load(group, index, value, timeout_ns);
    }
    template <class Group>
    PROGRAM_CALL status store(const Group& group, optional<u64> index, T value, u64 timeout_ns = 0) {
        return view_.store(group, index, value, timeout_ns);
    }
    template <class Group>
    PROGRAM_CALL status atomic_add(const Group& group, optional<u64> index, T value, u64 timeout_ns = 0) {
        return view_.atomic_add(group, index, value, timeout_ns);
    }
    PROGRAM_CALL T operator[](u64 index) { return view_[index]; }
    template <class Group>
    PROGRAM_CALL element_guard<T, Cache, Group> acquire(const Group& group, u64 index, u64 timeout_ns = 0) {
        return view_.acquire(group, index, timeout_ns);
    }

  private:
    array_view<T, Cache> view_;
};

// Data on the SSD, through the cache.
template <class Cache> class cached_data : public notes {
  public:
    WARPBELL_D cached_data(const stage_ref& stage, Cache& pages) : notes(stage), pages_(pages) {}

    // From a byte of the data on.
    template <class T> WARPBELL_D cached_array<T, Cache> array(u64 first_byte, u64 count) {
        return cached_array<T, Cache>(pages_, first_byte, count);
    }
    // What was stored is on the SSD.
    PROGRAM_CALL status flush() { return pages_.flush(this_warp()); }
    WARPBELL_D Cache& pages() { return pages_; }

  private:
    Cache& pages_;
};

// What `array_view::acquire` gives, of memory: all elements are here.
template <class T> class plain_elements {
  public:
    WARPBELL_D plain_elements(u8* data, u64 count, bool here) : data_(data), count_(here ? count : 0) {}

    WARPBELL_D explicit operator bool() const { return count_ != 0; }
    WARPBELL_D status result() const { return count_ != 0 ? status() : status(code::out_of_range); }
    WARPBELL_D bool contains(u64 index) const { return index < count_; }
    WARPBELL_D T operator[](u64 index) const {
        T value;
        detail::copy_bytes(&value, data_ + index * sizeof(T), sizeof(T));
        return value;
    }
    WARPBELL_D bool set(u64 index, T value) {
        detail::copy_bytes(data_ + index * sizeof(T), &value, sizeof(T));
        return true;
    }
    WARPBELL_D void release() { count_ = 0; }

  private:
    u8* data_;
    u64 count_;
};

// An array in memory, with the calls of array_view.
template <class T> class plain_array {
  public:
    WARPBELL_D plain_array(u64 address, u64 count) : data_(reinterpret_cast<u8*>(address)), count_(count) {}

    WARPBELL_D u64 size() const { return count_; }
    template <class Group>
    WARPBELL_D status try_load(const Group&, optional<u64> index, T& value, u64 = 0) const {
        if (index && *index < count_) {
            detail::copy_bytes(&value, data_ + *index * sizeof(T), sizeof(T));
        }
        return within(index);
    }
    template <class Group>
    WARPBELL_D status store(const Group&, optional<u64> index, T value, u64 = 0) const {
        if (index && *index < count_) {
            detail::copy_bytes(data_ + *index * sizeof(T), &value, sizeof(T));
        }
        return within(index);
    }
    template <class Group>
    WARPBELL_D status atomic_add(const Group&, optional<u64> index, T value, u64 = 0) const {
        if (index && *index < count_) {
            port::add_relaxed_gpu(reinterpret_cast<T*>(data_ + *index * sizeof(T)), value);
        }
        return within(index);
    }
    WARPBELL_D T operator[](u64 index) const {
        T value = T();
        (void)try_load(this_thread(), optional<u64>(index), value);
        return value;
    }
    template <class Group> WARPBELL_D plain_elements<T> acquire(const Group&, u64 index, u64 = 0) const {
        return plain_elements<T>(data_, count_, index < count_);
    }

  private:
    WARPBELL_D status within(optional<u64> index) const {
        return !index || *index < count_ ? status() : status(code::out_of_range);
    }

    u8* const data_;
    const u64 count_;
};

// The same data in memory, where the host put it.
class loaded_data : public notes {
  public:
    WARPBELL_D explicit loaded_data(const stage_ref& stage) : notes(stage), base_(stage.loaded) {}

    template <class T> WARPBELL_D plain_array<T> array(u64 first_byte, u64 count) {
        return plain_array<T>(base_ + first_byte, count);
    }
    // The host stores it.
    WARPBELL_D status flush() { return status(); }

  private:
    const u64 base_;
};

// An index for the lanes that have one.
WARPBELL_D optional<u64> index_if(bool has, u64 index) {
    return has ? optional<u64>(index) : optional<u64>();
}

// A part of 0 to `count`.
struct share {
    u64 first, end;
};

// That of this warp: a multiple of `unit`, but at the end.
WARPBELL_D share share_of_warp(u64 count, u64 unit = 32u) {
    const u64 units = (count + unit - 1u) / unit, warps = port::grid_blocks();
    const u64 each = (units + warps - 1u) / warps, first = each * port::block_index() * unit;
    const u64 end = first + each * unit;
    return share{first < count ? first : count, end < count ? end : count};
}

// This warp's way to the data: blocks of the SSD, or where the host says PROGRAM_OF_FILE a file on it.
template <page_access Access> class opened_cache {
    using ssd_type = session<sharing::shared>;
#if defined(PROGRAM_OF_FILE)
    using source_type = file_source<sharing::shared>;
#else
    using source_type = ssd_type&;
#endif
    using pages_type = page_cache<typename remove_reference<source_type>::type, Access>;

  public:
    cached_data<pages_type> data;

    WARPBELL_D explicit opened_cache(const stage_ref& stage)
        : data(stage, pages_), ssd_(this_warp(), stage.ns, port::block_index()), source_(source(stage)),
          pages_(this_warp(), stage.cache, source_, dma_span(stage.buffer)) {}
    opened_cache(const opened_cache&) = delete;

    WARPBELL_D void close() {
        pages_.detach(this_warp());
        ssd_.detach(this_warp());
    }

  private:
    WARPBELL_D source_type source(const stage_ref& stage) {
#if defined(PROGRAM_OF_FILE)
        return source_type(ssd_, file(stage.file));
#else
        (void)stage;
        return ssd_;
#endif
    }

    ssd_type ssd_;
    source_type source_;
    pages_type pages_;
};

} // namespace programs

// Two kernels of the function template `name(data, args)`: name_cached and name_loaded. `access`: what it
// does to the data, of warpbell::page_access. Arguments are copied: nothing refers to a kernel's parameters.
#define WARPBELL_PROGRAM(name, args_type, access)                                                            \
    WARPBELL_KERNEL(name##_cached, args_type) {                                                              \
        const args_type own = args;                                                                          \
        programs::opened_cache<warpbell::page_access::access> opened(own.stage);                             \
        name(opened.data, own);                                                                              \
        opened.close();                                                                                      \
    }                                                                                                        \
    WARPBELL_KERNEL(name##_loaded, args_type) {                                                              \
        const args_type own = args;                                                                          \
        programs::loaded_data data(own.stage);                                                               \
        name(data, own);                                                                                     \
    }
