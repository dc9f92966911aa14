// context.h - switch between stacks of one OS thread.
//
// On x86-64 the switch is inlined assembly that saves three registers and declares all others clobbered, so
// the compiler saves only what is live at that place. Inlining is what makes it fast: there is no call or
// return instruction, so the processor's return predictor stays in step. An out-of-line switch costs twice as
// much and more. Other architectures, or WARPBELL_SIMT_BOOST, use Boost.Context.
#pragma once

#include "sanitizer.h"

#include <cstddef>
#include <cstdint>

#if !defined(__x86_64__) && !defined(WARPBELL_SIMT_BOOST)
#define WARPBELL_SIMT_BOOST 1
#endif
#if defined(WARPBELL_SIMT_BOOST)
#include <boost/context/detail/fcontext.hpp>
#endif
#if SIMT_ASAN
#include <pthread.h>
#endif

namespace [[gnu::visibility("hidden")]] simt {

#if defined(WARPBELL_SIMT_BOOST)

struct Registers {
    boost::context::detail::fcontext_t handle;
};

template <void (*entry)()> SIMT_NO_TSAN void boost_entry(boost::context::detail::transfer_t from) {
    static_cast<Registers*>(from.data)->handle = from.fctx;
    entry();
}

template <void (*entry)()>
SIMT_NO_TSAN void prepare_registers(Registers& registers, char* top, size_t bytes) {
    registers.handle = boost::context::detail::make_fcontext(top, bytes, &boost_entry<entry>);
}

SIMT_INLINE void switch_registers(Registers* from, Registers* to) {
    auto back = boost::context::detail::jump_fcontext(to->handle, from);
    static_cast<Registers*>(back.data)->handle = back.fctx;
}

#else

struct Registers {
    void* ip;
    void* sp;
    void* bp;
};

template <void (*entry)()> SIMT_NO_TSAN void prepare_registers(Registers& registers, char* top, size_t) {
    // The ABI wants rsp % 16 == 8 on entry, where a call would have pushed its return address.
    void** sp = reinterpret_cast<void**>(top) - 3;
    sp[0] = sp[1] = sp[2] = nullptr;
    registers = {reinterpret_cast<void*>(entry), sp, nullptr};
}

#if defined(__AVX512F__)
#define SIMT_CLOBBER_AVX512                                                                                  \
    , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26",     \
        "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3", "k4", "k5", "k6", "k7"
#else
#define SIMT_CLOBBER_AVX512
#endif

// The x87 stack is not saved: no long double may live across a collective.
SIMT_INLINE void switch_registers(Registers* from, Registers* to) {
    __asm__ volatile("leaq 1f(%%rip), %%rax\n\t"
                     "movq %%rax, 0(%0)\n\t"
                     "movq %%rsp, 8(%0)\n\t"
                     "movq %%rbp, 16(%0)\n\t"
                     "movq 8(%1), %%rsp\n\t"
                     "movq 16(%1), %%rbp\n\t"
                     "jmp *0(%1)\n\t"
                     ".p2align 4\n"
                     "1:\n"
                     : "+D"(from), "+S"(to)
                     :
                     : "memory", "cc", "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13",
                       "r14", "r15", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
                       "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15" SIMT_CLOBBER_AVX512);
}

#endif

// A stack to switch to, with what the sanitizers want to know of it.
struct Context {
    Registers registers;
    uint64_t valgrind_stack;
#if SIMT_TSAN
    void* fiber;
#endif
#if SIMT_ASAN
    void* fake_stack;
    const void* bottom;
    size_t size;
#endif
};

// `last`: the stack switched from will never be switched to again.
template <bool last = false> SIMT_INLINE void switch_context(Context& from, Context& to) {
#if SIMT_ASAN
    __sanitizer_start_switch_fiber(last ? nullptr : &from.fake_stack, to.bottom, to.size);
#endif
#if SIMT_TSAN
    __tsan_switch_to_fiber(to.fiber, 1 /* no synchronisation: a switch orders nothing between lanes */);
#endif
    switch_registers(&from.registers, &to.registers);
#if SIMT_ASAN
    __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

// First thing on a new stack.
SIMT_INLINE void enter_context() {
#if SIMT_ASAN
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

// Makes `context` start `entry` on the stack [bottom, bottom + size), `skew` bytes below its top.
template <void (*entry)()>
SIMT_NO_TSAN void prepare_context(Context& context, char* bottom, size_t size, size_t skew) {
    asan_unpoison(bottom, size);
    context.valgrind_stack = valgrind_register_stack(bottom, size);
    prepare_registers<entry>(context.registers, bottom + size - skew, size - skew);
#if SIMT_TSAN
    context.fiber = __tsan_create_fiber(0);
#endif
#if SIMT_ASAN
    context.fake_stack = nullptr;
    context.bottom = bottom;
    context.size = size;
#endif
}

// Describes the calling thread's own stack.
SIMT_NO_TSAN inline void adopt_thread([[maybe_unused]] Context& context) {
#if SIMT_TSAN
    context.fiber = __tsan_get_current_fiber();
#endif
#if SIMT_ASAN
    pthread_attr_t attributes;
    void* bottom = nullptr;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &bottom, &context.size);
    pthread_attr_destroy(&attributes);
    context.bottom = bottom;
#endif
}

// Forgets a stack, whether its entry has finished or not. Call on the owner's stack.
SIMT_NO_TSAN inline void release_context(Context& context, [[maybe_unused]] const Context& owner) {
    valgrind_forget_stack(context.valgrind_stack);
#if SIMT_TSAN
    // Flag 0 orders: whatever that stack did, finished or not, happened before what the owner does next.
    __tsan_switch_to_fiber(context.fiber, 1);
    __tsan_switch_to_fiber(owner.fiber, 0);
    __tsan_destroy_fiber(context.fiber);
    context.fiber = nullptr;
#endif
#if SIMT_ASAN
    // ASan frees a stack's fake frames only when that stack is left for good; go through the motions for
    // it.
    if (context.fake_stack) {
        void* mine = nullptr;
        __sanitizer_start_switch_fiber(&mine, owner.bottom, owner.size);
        __sanitizer_finish_switch_fiber(context.fake_stack, nullptr, nullptr);
        __sanitizer_start_switch_fiber(nullptr, owner.bottom, owner.size);
        __sanitizer_finish_switch_fiber(mine, nullptr, nullptr);
        context.fake_stack = nullptr;
    }
    asan_unpoison(context.bottom, context.size);
#endif
}

} // namespace simt
