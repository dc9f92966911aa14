/* Launches on streams of the program's: their order, and what is refused. */
#include "expect.h"
#include <dlfcn.h>

#define LANES 32u
#define BYTES (LANES * sizeof(uint64_t))
#define SHORT UINT64_C(30000000)
#define LONG UINT64_C(60000000000)

struct step_args {
    uint64_t flag, words;
};

/* Memory that kernels and the host share. */
struct shared {
    warpbell_buffer* buffer;
    uint64_t address;
    volatile uint64_t* host;
};

static struct {
    warpbell_queues* queues;
    warpbell_program* program;
    struct shared flag, words, beside, seen;
    uint64_t device; /* memory of the GPU's, with a driver */
} test;

/* The driver's functions, as cuda.h has them. */
static struct {
    int (*init)(unsigned);
    int (*device_get)(int*, int);
    int (*retain)(void**, int);
    int (*release)(int);
    int (*push)(void*);
    int (*pop)(void**);
    int (*create)(void**, unsigned);
    int (*destroy)(void*);
    int (*wait)(void*);
    int (*alloc)(uint64_t*, size_t);
    int (*free)(uint64_t);
    int (*set)(uint64_t, unsigned char, size_t, void*);
    int (*copy_out)(void*, uint64_t, size_t, void*);
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
    find(library, "cuDevicePrimaryCtxRelease_v2", &cuda.release);
    find(library, "cuCtxPushCurrent_v2", &cuda.push);
    find(library, "cuCtxPopCurrent_v2", &cuda.pop);
    find(library, "cuStreamCreate", &cuda.create);
    find(library, "cuStreamDestroy_v2", &cuda.destroy);
    find(library, "cuStreamSynchronize", &cuda.wait);
    find(library, "cuMemAlloc_v2", &cuda.alloc);
    find(library, "cuMemFree_v2", &cuda.free);
    find(library, "cuMemsetD8Async", &cuda.set);
    find(library, "cuMemcpyDtoHAsync_v2", &cuda.copy_out);
    THAT(cuda.init(0) == 0 && cuda.device_get(&device, 0) == 0 && cuda.retain(&context, device) == 0);
    THAT(cuda.push(context) == 0);
    THAT(cuda.alloc(&test.device, BYTES) == 0);
}

static void share(struct shared* memory) {
    warpbell_buffer_ref ref;
    void* host;
    size_t bytes;
    OK(warpbell_buffer_alloc(test.queues, 4096, &memory->buffer));
    OK(warpbell_buffer_get_ref(memory->buffer, &ref));
    OK(warpbell_buffer_get_host(memory->buffer, &host, &bytes));
    memory->address = ref.data;
    memory->host = host;
}

static warpbell_error start(uint64_t flag, uint64_t words, const warpbell_launch_options* options,
                            warpbell_run** run) {
    struct step_args args;
    args.flag = flag;
    args.words = words;
    return warpbell_launch(test.program, "step", test.queues, &args, sizeof(args), options, run);
}

/* Work of the driver's between kernels: 0x01 in each byte before the last, and a copy of its words behind it.
 */
static void add_copies(void* stream, const warpbell_launch_options* on_it, warpbell_run** run) {
    THAT(cuda.set(test.device, 1, BYTES, stream) == 0);
    OK(start(0, test.device, on_it, run));
    THAT(cuda.copy_out((void*)test.seen.host, test.device, BYTES, stream) == 0);
}

/* A kernel that waits and those behind it, and one that it does not hold up. */
static void order(void* stream, int with_copies) {
    warpbell_launch_options on_it = WARPBELL_LAUNCH_OPTIONS_INIT;
    warpbell_run *first, *second, *beside, *last = NULL;
    size_t lane;
    on_it.on_stream = 1;
    on_it.stream = stream;
    *test.flag.host = 0;
    for (lane = 0; lane < LANES; ++lane) {
        test.words.host[lane] = test.beside.host[lane] = 3;
        test.seen.host[lane] = 0;
    }
    OK(start(test.flag.address, test.words.address, &on_it, &first));
    OK(start(0, test.words.address, &on_it, &second));
    if (with_copies) {
        add_copies(stream, &on_it, &last);
    }
    OK(start(0, test.beside.address, NULL, &beside));
    OK(warpbell_run_wait(beside, LONG));
    FAILS(warpbell_run_wait(second, SHORT), WARPBELL_ERROR_TIMEOUT, "still runs");
    THAT(test.words.host[0] == 3 && test.seen.host[0] == 0);
    *test.flag.host = 1;
    OK(warpbell_run_wait(second, LONG));
    OK(warpbell_run_wait(first, 0));
    if (with_copies) {
        THAT(cuda.wait(stream) == 0);
        OK(warpbell_run_wait(last, 0));
        OK(warpbell_run_close(last));
    }
    for (lane = 0; lane < LANES; ++lane) {
        THAT(test.beside.host[lane] == 7 && test.words.host[lane] == 15);
        THAT(test.seen.host[lane] == (with_copies ? UINT64_C(0x0202020202020203) : 0));
    }
    OK(warpbell_run_close(first));
    OK(warpbell_run_close(second));
    OK(warpbell_run_close(beside));
}

static void refusals(const char* target) {
    warpbell_launch_options options = WARPBELL_LAUNCH_OPTIONS_INIT;
    warpbell_run* run;
    options.stream = (void*)(size_t)0x1234;
    FAILS(start(0, test.words.address, &options, &run), WARPBELL_ERROR_INVALID,
          "stream 0x1234: on_stream is 0: set it to 1");
    THAT(run == NULL);
    options.on_stream = 1;
    if (strcmp(target, "cpu") == 0) {
        FAILS(start(0, test.words.address, &options, &run), WARPBELL_ERROR_INVALID,
              "stream 0x1234: kernel step: target cpu has no CUDA streams");
        options.stream = NULL;
        FAILS(start(0, test.words.address, &options, &run), WARPBELL_ERROR_INVALID,
              "stream 0x0: kernel step: target cpu has no CUDA streams");
    } else if (strcmp(target, "ptx") == 0) {
        /* The fake driver counts the use of such a handle as a violation. */
        FAILS(start(0, test.words.address, &options, &run), WARPBELL_ERROR_FAILED, "stream 0x1234");
    }
    THAT(run == NULL);
}

static void own_stream(void) {
    void *stream, *context;
    THAT(cuda.create(&stream, 1) == 0);
    order(stream, 1);
    THAT(cuda.destroy(stream) == 0 && cuda.free(test.device) == 0);
    THAT(cuda.pop(&context) == 0 && cuda.release(0) == 0);
}

int main(int argc, char** argv) {
    warpbell_attach_options options = WARPBELL_ATTACH_OPTIONS_INIT;
    warpbell_ssd* ssd;
    int on_cuda;
    THAT(argc == 3);
    on_cuda = strcmp(argv[2], "cuda:0") == 0;
    if (on_cuda) {
        find_driver();
    }
    options.target = argv[2];
    OK(warpbell_ssd_open("soft:size=1m", NULL, &ssd));
    OK(warpbell_queues_attach(ssd, &options, &test.queues));
    OK(warpbell_program_compile_file(argv[2], argv[1], NULL, &test.program));
    share(&test.flag);
    share(&test.words);
    share(&test.beside);
    share(&test.seen);
    refusals(argv[2]);
    if (strcmp(argv[2], "cpu") != 0) {
        /* CUDA's default streams: that of cuda.h, and cudaStreamLegacy. */
        order(NULL, 0);
        order((void*)(size_t)1, 0);
    }
    if (on_cuda) {
        own_stream();
    }
    OK(warpbell_program_close(test.program));
    OK(warpbell_queues_close(test.queues));
    OK(warpbell_ssd_close(ssd));
    printf("%d checks\n", checks);
    return 0;
}
