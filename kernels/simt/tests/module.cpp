// module.cpp - what a shared object with kernels exports, looked at from C.
#include "harness.h"

using namespace harness;

extern "C" const char* abi_first_kernel(void);

namespace {

struct AddArgs {
    uint32_t* sum;
    uint32_t value;
};

__global__ void add(const AddArgs& args) { simt::fetch_add(args.sum, args.value, simt::order::relaxed); }

const wb_simt_kernel_entry kernels[] = {
    {"add", [](const void* args) { add(*static_cast<const AddArgs*>(args)); }, sizeof(AddArgs)},
};

} // namespace

WB_SIMT_EXPORT(kernels)

int main() {
    const wb_simt_module* module = wb_simt_module_v1();
    CHECK(module->abi_version == WB_SIMT_ABI_VERSION && module->size == sizeof *module);
    CHECK(module->kernel_count == 1 && std::strcmp(abi_first_kernel(), "add") == 0);

    uint32_t sum = 0;
    wb_simt_launch launch = shape(4, 32);
    wb_simt* worker;
    {
        const AddArgs args = {&sum, 3}; // gone before the first step: create copies it
        launch.kernel = module->kernels[0].kernel;
        launch.args = &args;
        launch.args_size = module->kernels[0].args_size;
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
