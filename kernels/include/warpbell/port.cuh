// The platform: the only place that knows whether this is a GPU or the CPU executor.
//
// Every access to a ring, a completion slot, a doorbell or a clock goes through the functions of
// namespace port, which both halves define alike. On the GPU each is one PTX instruction; on the CPU
// each is a hook that can count it, watch it, pre-empt there, or hold a store back until a fence.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#include "impl/port_gpu.cuh"
#else
#include "impl/port_cpu.cuh"
#endif
#include "impl/aside.cuh"

// Kernels that are compiled with it write a trace (trace.cuh).
#if !defined(WARPBELL_TRACE)
#define WARPBELL_TRACE 0
#endif

// Whole warps that are compiled with it write whole submission entries (queue_submit.cuh): fewer writes over
// PCIe where rings lie behind it, for up to 16 shuffles and 90 to 310 instructions in each submission.
#if !defined(WARPBELL_COALESCED_ENTRIES)
#define WARPBELL_COALESCED_ENTRIES 0
#endif

// A library of another ABI, or with one of these options, can live in the same program under another name.
#if !defined(WARPBELL_NAMESPACE) && WARPBELL_TRACE && WARPBELL_COALESCED_ENTRIES
#define WARPBELL_NAMESPACE abi_v4_traced_coalesced
#elif !defined(WARPBELL_NAMESPACE) && WARPBELL_TRACE
#define WARPBELL_NAMESPACE abi_v4_traced
#elif !defined(WARPBELL_NAMESPACE) && WARPBELL_COALESCED_ENTRIES
#define WARPBELL_NAMESPACE abi_v4_coalesced
#elif !defined(WARPBELL_NAMESPACE)
#define WARPBELL_NAMESPACE abi_v4
#endif
