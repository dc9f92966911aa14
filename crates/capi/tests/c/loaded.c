/* Kernels that were compiled before: a shared object on target cpu, and PTX on the PTX machine. */
#include "expect.h"

#define LANES 32u
#define BLOCK 512u

/* As examples/first_kernel.cu has it. */
struct sum_args {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref data, sums;
};

/* Each lane stores its number and what it was handed. */
static const char* const PTX =
    ".version 7.8\n.target sm_75\n.address_size 64\n"
    ".visible .global .align 4 .u32 warpbell_kernel_numbers[2] = {%u, 16};\n"
    ".visible .entry numbers(.param .align 8 .b8 args[16]) .maxntid 256 .minnctapersm 1\n"
    "{\n"
    "    .reg .b32 %%r<4>;\n"
    "    .reg .b64 %%rd<4>;\n"
    "    ld.param.u64 %%rd1, [args];\n"
    "    ld.param.u32 %%r1, [args+8];\n"
    "    mov.u32 %%r2, %%tid.x;\n"
    "    add.u32 %%r1, %%r1, %%r2;\n"
    "    mul.wide.u32 %%rd2, %%r2, 4;\n"
    "    add.u64 %%rd3, %%rd1, %%rd2;\n"
    "    st.global.u32 [%%rd3], %%r1;\n"
    "    ret;\n"
    "}\n";

struct number_args {
    uint64_t to, first;
};

static void write_ptx(const char* path, unsigned abi_version) {
    FILE* file = fopen(path, "w");
    THAT(file != NULL);
    fprintf(file, PTX, abi_version);
    THAT(fclose(file) == 0);
}

static void run_once(warpbell_program* program, const char* kernel, warpbell_queues* queues, const void* args,
                     size_t bytes) {
    warpbell_run* run;
    OK(warpbell_launch(program, kernel, queues, args, bytes, NULL, &run));
    OK(warpbell_run_wait(run, UINT64_C(60000000000)));
    OK(warpbell_run_close(run));
}

static void* host_of(warpbell_buffer* buffer) {
    void* memory;
    size_t bytes;
    OK(warpbell_buffer_get_host(buffer, &memory, &bytes));
    return memory;
}

/* Over an SSD whose blocks are known. */
static void shared_object(warpbell_ssd* ssd, const char* path) {
    static uint64_t blocks[LANES][BLOCK / 8];
    warpbell_queues* queues;
    warpbell_buffer *data, *sums;
    warpbell_program* program;
    struct sum_args args;
    uint64_t found[LANES];
    unsigned lane, i;
    for (lane = 0; lane < LANES; ++lane) {
        for (i = 0; i < BLOCK / 8; ++i) {
            blocks[lane][i] = (uint64_t)lane << 32 | i;
        }
    }
    OK(warpbell_ssd_write(ssd, 0, 0, blocks, sizeof(blocks)));
    OK(warpbell_queues_attach(ssd, NULL, &queues));
    OK(warpbell_buffer_alloc(queues, sizeof(blocks), &data));
    OK(warpbell_buffer_alloc(queues, sizeof(found), &sums));
    OK(warpbell_program_load("cpu", path, &program));
    OK(warpbell_queues_get_namespace_ref(queues, &args.ns));
    OK(warpbell_buffer_get_ref(data, &args.data));
    OK(warpbell_buffer_get_ref(sums, &args.sums));
    run_once(program, "sum_blocks", queues, &args, sizeof(args));
    memcpy(found, host_of(sums), sizeof(found));
    for (lane = 0; lane < LANES; ++lane) {
        const uint64_t words = BLOCK / 8;
        THAT(found[lane] == ((uint64_t)lane << 32) * words + words * (words - 1) / 2);
    }
    OK(warpbell_program_close(program));
    FAILS(warpbell_program_close(program), WARPBELL_ERROR_HANDLE, "was closed before");
    OK(warpbell_buffer_close(sums));
    OK(warpbell_buffer_close(data));
    OK(warpbell_queues_close(queues));
}

static void ptx(warpbell_ssd* ssd, const char* path) {
    warpbell_attach_options options = WARPBELL_ATTACH_OPTIONS_INIT;
    warpbell_queues* queues;
    warpbell_buffer* numbers;
    warpbell_buffer_ref ref;
    warpbell_program* program;
    struct number_args args;
    uint32_t found[LANES];
    unsigned lane;
    options.target = "ptx";
    OK(warpbell_queues_attach(ssd, &options, &queues));
    OK(warpbell_buffer_alloc(queues, sizeof(found), &numbers));
    OK(warpbell_buffer_get_ref(numbers, &ref));
    write_ptx(path, WARPBELL_ABI_VERSION);
    OK(warpbell_program_load("ptx", path, &program));
    args.to = ref.data;
    args.first = 1000;
    run_once(program, "numbers", queues, &args, sizeof(args));
    memcpy(found, host_of(numbers), sizeof(found));
    for (lane = 0; lane < LANES; ++lane) {
        THAT(found[lane] == 1000 + lane);
    }
    OK(warpbell_program_close(program));
    OK(warpbell_buffer_close(numbers));
    OK(warpbell_queues_close(queues));
}

static void refusals(const char* object, const char* path) {
    warpbell_program* program;
    FAILS(warpbell_program_load("cpu", path, &program), WARPBELL_ERROR_FAILED, path);
    THAT(program == NULL);
    FAILS(warpbell_program_load("ptx", object, &program), WARPBELL_ERROR_INVALID, object);
    write_ptx(path, WARPBELL_ABI_VERSION + 1u);
    FAILS(warpbell_program_load("ptx", path, &program), WARPBELL_ERROR_FAILED, "interface version");
    THAT(program == NULL);
}

int main(int argc, char** argv) {
    warpbell_ssd* ssd;
    THAT(argc == 3);
    OK(warpbell_ssd_open("soft:size=1m", NULL, &ssd));
    shared_object(ssd, argv[1]);
    ptx(ssd, argv[2]);
    refusals(argv[1], argv[2]);
    OK(warpbell_ssd_close(ssd));
    printf("%d checks\n", checks);
    return 0;
}
