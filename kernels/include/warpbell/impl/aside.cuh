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

} // namespace port
} // namespace warpbell
