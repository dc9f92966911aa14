// How a word of a page is read without a pin (cache_lines.cuh says when that counts).
#pragma once

#include "cache_lines.cuh"

namespace warpbell {
inline namespace WARPBELL_NAMESPACE {

// Page and word are loaded together: of a line with another page the word is dropped. They are not older than
// the state, by its acquire. Whoever sees a page that `give` has stored does not see the state of before it
// in `holds`, by the two fences. An SSD writes after the doorbell, which a fence of the system orders behind
// the new generation: so whoever has a word of the next page sees that, too.
template <class Word>
WARPBELL_D cache_lines::sighting cache_lines::read(u64 page, const u8* place, Word& word) const {
    sighting seen;
    u32 next = static_cast<u32>(port::load_relaxed_gpu(bucket_of(page)));
    // Bounded, as in `find`.
    WARPBELL_NO_UNROLL
    for (u32 left = ref_.line_count; next != 0 && left != 0; --left) {
        const u32 line = next - 1u;
        const u8* const from = place + (static_cast<u64>(line) << ref_.page_shift);
        seen.state = port::load_acquire_gpu(&at(line)->state);
        const u64 has = this->page(line);
        word = port::load_speculative_gpu(reinterpret_cast<const Word*>(from));
        if (has == page) {
            const bool ready = line_bits::phase_of(seen.state) == line_phase::ready;
            seen.line = ready || mutate::cache_word_early ? line : none;
            break;
        }
        next = port::load_relaxed_gpu(&at(line)->next);
    }
    return seen;
}

// The mark may come to a line that has got another page by now. There it costs at most a wrong guess of the
// policy, or a page that was read ahead counts as used.
template <class Policy> WARPBELL_D void cache_lines::note_use(const sighting& seen) const {
    if (mutate::cache_word_unnoted) {
        return;
    }
    if constexpr (Policy::stamps_use) {
        port::store_relaxed_gpu(&at(seen.line)->stamp, now());
    }
    if (Policy::marks_use && !line_bits::is_used(seen.state)) {
        port::or_relaxed_gpu(&at(seen.line)->state, line_bits::used);
    }
}

} // namespace WARPBELL_NAMESPACE
} // namespace warpbell
