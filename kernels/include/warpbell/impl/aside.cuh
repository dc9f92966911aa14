// Values out of registers, while something is done that is rare and takes many.
#pragma once

namespace warpbell {
namespace port {

// Values of a lane, for `aside`.
template <class... Held> struct put_aside {
    WARPBELL_D void store() {}
    WARPBELL_D void load() {}
};
template <class First, class... Rest> struct put_aside<First, Rest...> {
    WARPBELL_D void store(First first, Rest... rest) {
        first_ = first;
        rest_.store(rest...);
    }
    WARPBELL_D void load(First& first, Rest&... rest) {
        first = first_;
        rest_.load(rest...);
    }
    First first_;
    put_aside<Rest...> rest_;
};

// Does `work` and returns its answer. Meanwhile `held` lie in the lane's memory, in no registers; `work` does
// not change them. The compiler cannot keep copies.
template <class Work, class... Held> WARPBELL_D auto aside(Work work, Held&... held) {
    put_aside<Held...> kept;
    kept.store(held...);
    keep_in_memory(kept);
    const auto result = work();
    kept.load(held...);
    return result;
}

// Where an object is to be made. A type of ours: <new> is not there under NVRTC.
struct place {
    void* at;
};

} // namespace port
} // namespace warpbell

WARPBELL_D void* operator new(decltype(sizeof(0)), warpbell::port::place where) noexcept { return where.at; }
WARPBELL_D void operator delete(void*, warpbell::port::place) noexcept {}

namespace warpbell {
namespace port {

// Memory for a value that is made later, or never. It has no destructor.
template <class T> struct made_later {
    template <class... From> WARPBELL_D void make(const From&... from) { new (place{memory}) T(from...); }
    WARPBELL_D T& value() { return *reinterpret_cast<T*>(memory); }

  private:
    alignas(T) unsigned char memory[sizeof(T)];
};

} // namespace port
} // namespace warpbell
