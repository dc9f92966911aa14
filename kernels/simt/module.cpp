// module.cpp - what a module exports: the executor, and the kernels that listed themselves.
#include "executor.h"

namespace {

constinit wb_simt_module module = {WB_SIMT_ABI_VERSION, sizeof(wb_simt_module), wb_simt_create,  wb_simt_step,
                                   wb_simt_error,       wb_simt_counters_read,  wb_simt_destroy, nullptr,
                                   &simt::explore_table};

} // namespace

void wb_simt_register(wb_simt_kernel_entry* kernel) {
    kernel->next = module.kernels;
    module.kernels = kernel;
}

const wb_simt_module* wb_simt_module_v1() { return &module; }
