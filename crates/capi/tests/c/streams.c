/* Launches on streams of the program's: their order, and what is refused. */
#include "expect.h"
#include <dlfcn.h>

#define LANES 32u
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
    struct shared flag, words, beside;
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
    int (*set)(uint64_t, unsigned char, size_t, void*);
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
    find(library, "cuMemsetD8Async", &cuda.set);
    THAT(cuda.init(0) == 0 && cuda.device_get(&device, 0) == 0 && cuda.retain(&context, device) == 0);
    THAT(cuda.push(context) == 0);
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

static warpbell_error start(const struct shared* flag, const struct shared* words,
                            const warpbell_launch_options* options, warpbell_run** run) {
    struct step_args args;
    args.flag = flag == NULL ? 0 : flag->address;
    args.words = words->address;
    return warpbell_launch(test.program, "step", test.queues, &args, sizeof(args), options, run);
}

/* A kernel that waits and one behind it, and a third that neither holds up. */
static void order(void* stream, int with_driver) {
    warpbell_launch_options on_it = WARPBELL_LAUNCH_OPTIONS_INIT;
    warpbell_run *first, *second, *beside;
    size_t lane;
    on_it.on_stream = 1;
    on_it.stream = stream;
    *test.flag.host = 0;
    for (lane = 0; lane < LANES; ++lane) {
        test.words.host[lane] = 3;
        test.beside.host[lane] = 3;
    }
    OK(start(&test.flag, &test.words, &on_it, &first));
    if (with_driver) {
        /* Between both: 0x0101010101010101 in each word. */
        THAT(cuda.set(test.words.address, 1, LANES * sizeof(uint64_t), stream) == 0);
    }
    OK(start(NULL, &test.words, &on_it, &second));
    OK(start(NULL, &test.beside, NULL, &beside));
    OK(warpbell_run_wait(beside, LONG));
    FAILS(warpbell_run_wait(second, SHORT), WARPBELL_ERROR_TIMEOUT, "still runs");
    THAT(test.words.host[0] == 3);
    *test.flag.host = 1;
    OK(warpbell_run_wait(second, LONG));
    OK(warpbell_run_wait(first, 0));
    for (lane = 0; lane < LANES; ++lane) {
        THAT(test.beside.host[lane] == 7);
        THAT(test.words.host[lane] == (with_driver ? UINT64_C(0x0202020202020203) : 15));
    }
    OK(warpbell_run_close(first));
    OK(warpbell_run_close(second));
    OK(warpbell_run_close(beside));
}

static void refusals(const char* target) {
    warpbell_launch_options options = WARPBELL_LAUNCH_OPTIONS_INIT;
    warpbell_run* run;
    options.stream = (void*)(size_t)0x1234;
    FAILS(start(NULL, &test.words, &options, &run), WARPBELL_ERROR_INVALID,
          "stream 0x1234: on_stream is 0: set it to 1");
    THAT(run == NULL);
    options.on_stream = 1;
    if (strcmp(target, "cpu") == 0) {
        FAILS(start(NULL, &test.words, &options, &run), WARPBELL_ERROR_INVALID,
              "stream 0x1234: kernel step: target cpu has no CUDA streams");
        options.stream = NULL;
        FAILS(start(NULL, &test.words, &options, &run), WARPBELL_ERROR_INVALID,
              "stream 0x0: kernel step: target cpu has no CUDA streams");
    } else {
        FAILS(start(NULL, &test.words, &options, &run), WARPBELL_ERROR_FAILED, "stream 0x1234");
    }
    THAT(run == NULL);
}

static void own_stream(void) {
    void *stream, *context;
    THAT(cuda.create(&stream, 1) == 0);
    order(stream, 1);
    THAT(cuda.destroy(stream) == 0);
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
    refusals(argv[2]);
    if (strcmp(argv[2], "cpu") != 0) {
        /* CUDA's default streams: that of cuda.h, and cudaStreamLegacy. */
        order(NULL, on_cuda);
        order((void*)(size_t)1, on_cuda);
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
