/* GPU memory that the program has, registered: refusals, and a kernel that reads blocks into it. */
#include "expect.h"
#include <dlfcn.h>

#define SHARED 65536u
#define LANES 32u

/* The driver's functions, as cuda.h has them; addresses are 64-bit numbers. */
static struct {
    int (*init)(unsigned);
    int (*device_get)(int*, int);
    int (*retain)(void**, int);
    int (*push)(void*);
    int (*alloc)(uint64_t*, size_t);
    int (*release)(uint64_t);
    int (*stream)(void**, unsigned);
    int (*copy_out)(void*, uint64_t, size_t, void*);
    int (*wait)(void*);
} cuda;

static void find(void* library, const char* name, void* function) {
    void* symbol = dlsym(library, name);
    THAT(symbol != NULL);
    memcpy(function, &symbol, sizeof(symbol));
}

static void find_driver(void) {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    int device;
    void* context;
    THAT(library != NULL);
    find(library, "cuInit", &cuda.init);
    find(library, "cuDeviceGet", &cuda.device_get);
    find(library, "cuDevicePrimaryCtxRetain", &cuda.retain);
    find(library, "cuCtxPushCurrent_v2", &cuda.push);
    find(library, "cuMemAlloc_v2", &cuda.alloc);
    find(library, "cuMemFree_v2", &cuda.release);
    find(library, "cuStreamCreate", &cuda.stream);
    find(library, "cuMemcpyDtoHAsync_v2", &cuda.copy_out);
    find(library, "cuStreamSynchronize", &cuda.wait);
    THAT(cuda.init(0) == 0 && cuda.device_get(&device, 0) == 0 && cuda.retain(&context, device) == 0);
    THAT(cuda.push(context) == 0);
}

/* An allocation with at least `bytes` from a multiple of 64 KiB on. */
static uint64_t allocate(size_t bytes, uint64_t* base) {
    THAT(cuda.alloc(base, bytes + SHARED) == 0);
    return (*base + SHARED - 1) / SHARED * SHARED;
}

struct sum_args {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref data, sums;
};

static void sum(warpbell_queues* queues, const char* source, warpbell_buffer* data, warpbell_buffer* sums) {
    warpbell_program* program;
    warpbell_run* run;
    struct sum_args args;
    OK(warpbell_program_compile_file("cuda:0", source, NULL, &program));
    OK(warpbell_queues_get_namespace_ref(queues, &args.ns));
    OK(warpbell_buffer_get_ref(data, &args.data));
    OK(warpbell_buffer_get_ref(sums, &args.sums));
    OK(warpbell_launch(program, "sum_blocks", queues, &args, sizeof(args), NULL, &run));
    FAILS(warpbell_buffer_close(data), WARPBELL_ERROR_BUSY, "run");
    OK(warpbell_run_wait(run, UINT64_C(60000000000)));
    OK(warpbell_run_close(run));
    OK(warpbell_program_close(program));
}

static void refusals(warpbell_queues* queues, uint64_t memory) {
    static unsigned char host[2 * SHARED];
    uint64_t page = ((uint64_t)(size_t)host + SHARED - 1) / SHARED * SHARED;
    warpbell_buffer* buffer;
    FAILS(warpbell_buffer_register_device(queues, memory + 512, SHARED, &buffer), WARPBELL_ERROR_INVALID,
          "must be multiples of 65536 bytes");
    FAILS(warpbell_buffer_register_device(queues, memory, 4096, &buffer), WARPBELL_ERROR_INVALID,
          "4096 bytes at");
    FAILS(warpbell_buffer_register_device(queues, memory, 0, &buffer), WARPBELL_ERROR_INVALID, "0 bytes at");
    FAILS(warpbell_buffer_register_device(queues, memory, 64 * SHARED, &buffer), WARPBELL_ERROR_INVALID,
          "its allocation has");
    FAILS(warpbell_buffer_register_device(queues, page, SHARED, &buffer), WARPBELL_ERROR_INVALID,
          "no memory that CUDA knows");
    FAILS(warpbell_buffer_register_device(queues, memory, SHARED, NULL), WARPBELL_ERROR_INVALID, "buffer");
    THAT(buffer == NULL);
}

int main(int argc, char** argv) {
    static unsigned char blocks[LANES * 512];
    warpbell_open_options chosen = WARPBELL_OPEN_OPTIONS_INIT;
    warpbell_attach_options options = WARPBELL_ATTACH_OPTIONS_INIT;
    warpbell_ssd* ssd;
    warpbell_queues *queues, *of_cpu;
    warpbell_buffer *data, *sums;
    uint64_t base, memory, found[LANES], word, right;
    void *stream, *pointer;
    size_t bytes, lane, i;
    THAT(argc == 2);
    find_driver();
    memory = allocate(2 * SHARED, &base);
    chosen.data = "hbm";
    chosen.rings = "hbm";
    chosen.gpu = "cuda:0";
    OK(warpbell_ssd_open("soft:size=1m", &chosen, &ssd));
    for (i = 0; i < sizeof(blocks); ++i) {
        blocks[i] = (unsigned char)(i * 7 + i / 512);
    }
    OK(warpbell_ssd_write(ssd, 0, 0, blocks, sizeof(blocks)));
    FAILS(warpbell_queues_attach(ssd, NULL, &of_cpu), WARPBELL_ERROR_INVALID, "rings lie in hbm of cuda:0");
    options.target = "cuda:0";
    OK(warpbell_queues_attach(ssd, &options, &queues));
    refusals(queues, memory);
    OK(warpbell_buffer_register_device(queues, memory, SHARED, &data));
    OK(warpbell_buffer_register_device(queues, memory + SHARED, SHARED, &sums));
    FAILS(warpbell_buffer_get_host(data, &pointer, &bytes), WARPBELL_ERROR_INVALID, "GPU's memory");
    sum(queues, argv[1], data, sums);
    THAT(cuda.stream(&stream, 1) == 0);
    THAT(cuda.copy_out(found, memory + SHARED, sizeof(found), stream) == 0 && cuda.wait(stream) == 0);
    for (lane = 0; lane < LANES; ++lane) {
        for (right = 0, i = 0; i < 512; i += sizeof(word)) {
            memcpy(&word, blocks + lane * 512 + i, sizeof(word));
            right += word;
        }
        THAT(found[lane] == right);
    }
    OK(warpbell_buffer_close(data));
    OK(warpbell_buffer_close(sums));
    OK(warpbell_queues_close(queues));
    OK(warpbell_ssd_close(ssd));
    THAT(cuda.release(base) == 0);
    printf("%d checks\n", checks);
    return 0;
}
