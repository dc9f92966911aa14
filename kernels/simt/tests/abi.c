/* abi.c - module.h is C99, and its layout is what the Rust mirror expects. */
#include "simt/module.h"

#include <stddef.h>

#define HAS(type, size) typedef char type##_has_##size[sizeof(struct type) == size ? 1 : -1]
#define AT(type, field, offset) typedef char type##_##field[offsetof(struct type, field) == offset ? 1 : -1]

HAS(wb_simt_counters, 144);
AT(wb_simt_counters, register_reads, 136);
HAS(wb_simt_hooks, 48);
AT(wb_simt_hooks, memory_event, 24);
AT(wb_simt_hooks, pass_time, 32);
AT(wb_simt_hooks, register_load, 40);
HAS(wb_simt_launch, 160);
AT(wb_simt_launch, kernel, 8);
AT(wb_simt_launch, grid_x, 32);
AT(wb_simt_launch, seed, 64);
AT(wb_simt_launch, preempt_one_in, 72);
AT(wb_simt_launch, hooks, 88);
AT(wb_simt_launch, costs, 136);
HAS(wb_simt_costs, 56);
AT(wb_simt_costs, clock, 52);
HAS(wb_simt_range, 16);
HAS(wb_simt_kernel_entry, 40);
HAS(wb_simt_module, 64);
HAS(wb_simt_stop, 24);
HAS(wb_simt_waiting, 40);
HAS(wb_simt_explore, 40);
AT(wb_simt_module, kernels, 48);

unsigned abi_kernel_count(void);

unsigned abi_kernel_count(void) {
    unsigned count = 0;
    const struct wb_simt_kernel_entry* kernel = wb_simt_module_v1()->kernels;
    for (; kernel; kernel = kernel->next) {
        ++count;
    }
    return count;
}
