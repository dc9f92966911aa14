// sanitizer.h - which sanitizer this build runs under, and its calls for code that switches stacks.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_THREAD__)
#define SIMT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SIMT_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SIMT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIMT_ASAN 1
#endif
#endif
#ifndef SIMT_TSAN
#define SIMT_TSAN 0
#endif
#ifndef SIMT_ASAN
#define SIMT_ASAN 0
#endif

#if SIMT_TSAN
extern "C" {
void* __tsan_get_current_fiber(void);
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif
#if SIMT_ASAN
extern "C" {
void __asan_unpoison_memory_region(void const volatile* address, size_t size);
void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, size_t size);
void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom, size_t* size);
}
#endif

// Lanes are separate threads to the race detector, yet share the executor's own state, of which only one at a
// time makes use. So the executor is left uninstrumented. It must not call std:: templates either: those
// would be instrumented copies, and report races that are none.
#define SIMT_NO_TSAN __attribute__((no_sanitize("thread")))

// Executor code on the way of every collective and access: inlined for speed. Under TSan an uninstrumented
// function cannot be inlined into instrumented device code, so there the ways in are calls.
#define SIMT_INLINE SIMT_NO_TSAN inline __attribute__((always_inline))
#if SIMT_TSAN
#define SIMT_ENTRY SIMT_NO_TSAN __attribute__((noinline)) inline
#else
#define SIMT_ENTRY SIMT_INLINE
#endif
#define SIMT_COLD SIMT_NO_TSAN __attribute__((noinline, cold))
#define SIMT_LIKELY(x) __builtin_expect(!!(x), 1)
#define SIMT_UNLIKELY(x) __builtin_expect(!!(x), 0)

namespace [[gnu::visibility("hidden")]] simt {

// Happens-before edges for the race detector; nothing elsewhere.
SIMT_INLINE void tsan_release([[maybe_unused]] void* address) {
#if SIMT_TSAN
    __tsan_release(address);
#endif
}

SIMT_INLINE void tsan_acquire([[maybe_unused]] void* address) {
#if SIMT_TSAN
    __tsan_acquire(address);
#endif
}

// A stack that is used anew still carries the poison of frames that never returned.
SIMT_INLINE void asan_unpoison([[maybe_unused]] const void* address, [[maybe_unused]] size_t size) {
#if SIMT_ASAN
    __asan_unpoison_memory_region(address, size);
#endif
}

// Tells valgrind of a stack [bottom, bottom + size), so that a switch to it is none of its frames'; returns
// its name for that. Elsewhere these instructions do nothing: the rotations add up to whole turns.
SIMT_INLINE uint64_t valgrind_request([[maybe_unused]] uint64_t request, [[maybe_unused]] uint64_t first,
                                      [[maybe_unused]] uint64_t second) {
    uint64_t answer = 0;
#if defined(__x86_64__) && !SIMT_TSAN && !SIMT_ASAN
    const uint64_t words[6] = {request, first, second, 0, 0, 0};
    __asm__ volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\t"
                     "rolq $61, %%rdi\n\trolq $51, %%rdi\n\t"
                     "xchgq %%rbx, %%rbx\n\t"
                     : "+d"(answer)
                     : "a"(words)
                     : "cc", "memory");
#endif
    return answer;
}

SIMT_INLINE uint64_t valgrind_register_stack(const char* bottom, size_t size) {
    const auto start = reinterpret_cast<uint64_t>(bottom);
    return valgrind_request(0x1501, start, start + size - 1);
}

SIMT_INLINE void valgrind_forget_stack(uint64_t stack) { valgrind_request(0x1502, stack, 0); }

} // namespace simt
