// module.cpp - what a shared object with kernels exports, looked at from C.
#include "harness.h"

using namespace harness;

extern "C" unsigned abi_kernel_count(void);

namespace {

struct AddArgs {
    uint32_t* sum;
    uint32_t value;
};

__global__ void add(const AddArgs& args) { simt::fetch_add(args.sum, args.value, simt::order::relaxed); }

void none(const void*) {}

wb_simt_listed
    listed_add("add", [](const void* args) { add(*static_cast<const AddArgs*>(args)); }, sizeof(AddArgs), 7);
wb_simt_listed listed_none("none", none, 0, 7);

const wb_simt_kernel_entry* find(const wb_simt_module* module, const char* name) {
    const wb_simt_kernel_entry* entry = module->kernels;
    while (entry && std::strcmp(entry->name, name) != 0) {
        entry = entry->next;
    }
    return entry;
}

} // namespace

int main() {
    const wb_simt_module* module = wb_simt_module_v1();
    CHECK(module->abi_version == WB_SIMT_ABI_VERSION && module->size == sizeof *module);
    CHECK(abi_kernel_count() == 2 && find(module, "none") && !find(module, "nobody"));
    const wb_simt_kernel_entry* kernel = find(module, "add");
    CHECK(kernel->args_size == sizeof(AddArgs) && kernel->abi_version == 7);

    uint32_t sum = 0;
    wb_simt_launch launch = shape(4, 32);
    wb_simt* worker;
    {
        const AddArgs args = {&sum, 3}; // gone before the first step: create copies it
        launch.kernel = kernel->kernel;
        launch.args = &args;
        launch.args_size = kernel->args_size;
        worker = module->create(&launch);
    }
    uint32_t state;
    while ((state = module->step(worker, 1)) <= WB_SIMT_IDLE) {
    }
    wb_simt_counters count;
    module->counters(worker, &count);
    CHECK(state == WB_SIMT_DONE && sum == 4 * 32 * 3 && count.rmw == 128);
    CHECK(module->error(worker)[0] == 0);
    module->destroy(worker);
    module->destroy(nullptr);
    return summary("module");
}
