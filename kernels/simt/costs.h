/* costs.h - what accesses of a lane take in virtual time, in nanoseconds. C99.
 *
 * kernels/src/cpu/costs.rs has the figures and where they come from; docs/protocols.md says what they
 * mean. */
#ifndef WARPBELL_SIMT_COSTS_H
#define WARPBELL_SIMT_COSTS_H

#include <stdint.h>

struct wb_simt_costs {
    uint32_t instructions; /* before each access */
    uint32_t load_shared;  /* from the memory of the block; a read-modify-write as well */
    uint32_t load_gpu;     /* from the GPU's memory: an L2 hit */
    uint32_t load_host;    /* from host memory */
    uint32_t store;        /* to leave, wherever it goes */
    uint32_t rmw_gpu;      /* read-modify-write, in the GPU's memory */
    uint32_t rmw_host;     /* in host memory */
    uint32_t rmw_service;  /* for so long its address serves no other */
    uint32_t fence_gpu;
    uint32_t fence_sys;  /* with nothing on its way to the host */
    uint32_t host_write; /* until a store to host memory, or a doorbell, is there: a system fence waits */
    uint32_t doorbell;   /* to leave */
    uint32_t collective; /* from the last lane's arrival on */
    uint32_t clock;
};

/* Addresses from begin up to, but not with, end. */
struct wb_simt_range {
    uint64_t begin, end;
};

#endif
