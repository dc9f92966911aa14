/* Kernels: what is refused, how one is stopped, and several at a time from several threads. */
#include "expect.h"
#include <pthread.h>

static const char* const SOURCE =
    "#include <warpbell/warpbell.cuh>\n"
    "struct stop_args { uint64_t mailbox, seen; };\n"
    "WARPBELL_KERNEL(wait_for_stop, stop_args) {\n"
    "    using namespace warpbell;\n"
    "    while (port::load_relaxed_sys(&reinterpret_cast<warpbell_mailbox*>(args.mailbox)->stop) == 0)\n"
    "        port::pause();\n"
    "    reinterpret_cast<uint64_t*>(args.seen)[port::lane()] = ANSWER;\n"
    "}\n";

struct stop_args {
    uint64_t mailbox, seen;
};

static void compiling(void) {
    static const char* const two[] = {"ANSWER=42", NULL};
    warpbell_compile_options chosen = WARPBELL_COMPILE_OPTIONS_INIT;
    warpbell_program* program;
    FAILS(warpbell_program_compile("cpu", NULL, SOURCE, NULL, &program), WARPBELL_ERROR_INVALID,
          "name: is NULL");
    FAILS(warpbell_program_compile("cpu", "a.cu", NULL, NULL, &program), WARPBELL_ERROR_INVALID,
          "source: is NULL");
    FAILS(warpbell_program_compile("tpu", "a.cu", SOURCE, NULL, &program), WARPBELL_ERROR_INVALID,
          "target 'tpu'");
    FAILS(warpbell_program_compile("cpu", "stop.cu", SOURCE, NULL, &program), WARPBELL_ERROR_COMPILE,
          "stop.cu:7");
    THAT(program == NULL);
    FAILS(warpbell_program_compile("cpu", "none.cu", "int x;", NULL, &program), WARPBELL_ERROR_INVALID,
          "none.cu: it has no kernel");
    FAILS(warpbell_program_compile_file(NULL, "/nowhere/a.cu", NULL, &program), WARPBELL_ERROR_INVALID,
          "/nowhere/a.cu");
    chosen.definitions = two;
    OK(warpbell_program_compile(NULL, "stop.cu", SOURCE, &chosen, &program));
    OK(warpbell_program_close(program));
    FAILS(warpbell_program_close(program), WARPBELL_ERROR_HANDLE, "was closed before");
    chosen.cache = "/dev/null/cache";
    FAILS(warpbell_program_compile(NULL, "stop.cu", SOURCE, &chosen, &program), WARPBELL_ERROR_FAILED,
          "/dev/null/cache");
    THAT(program == NULL);
}

static warpbell_program* compile(void) {
    static const char* const definitions[] = {"ANSWER=42", NULL};
    warpbell_compile_options chosen = WARPBELL_COMPILE_OPTIONS_INIT;
    warpbell_program* program;
    chosen.definitions = definitions;
    OK(warpbell_program_compile("cpu", "stop.cu", SOURCE, &chosen, &program));
    return program;
}

static void launching(warpbell_queues* queues, warpbell_program* program) {
    warpbell_launch_options shape = WARPBELL_LAUNCH_OPTIONS_INIT;
    struct stop_args args = {0, 0};
    warpbell_run* run;
    FAILS(warpbell_launch(NULL, "wait_for_stop", queues, &args, sizeof(args), NULL, &run),
          WARPBELL_ERROR_HANDLE, "program: NULL");
    FAILS(warpbell_launch(program, NULL, queues, &args, sizeof(args), NULL, &run), WARPBELL_ERROR_INVALID,
          "kernel: is NULL");
    FAILS(warpbell_launch(program, "nothing", queues, &args, sizeof(args), NULL, &run),
          WARPBELL_ERROR_INVALID, "wait_for_stop");
    FAILS(warpbell_launch(program, "wait_for_stop", NULL, &args, sizeof(args), NULL, &run),
          WARPBELL_ERROR_HANDLE, "queues: NULL");
    FAILS(warpbell_launch(program, "wait_for_stop", queues, NULL, sizeof(args), NULL, &run),
          WARPBELL_ERROR_INVALID, "args: is NULL");
    FAILS(warpbell_launch(program, "wait_for_stop", queues, &args, 8, NULL, &run), WARPBELL_ERROR_INVALID,
          "arguments of 8 bytes, but it takes 16");
    shape.block = 5000;
    FAILS(warpbell_launch(program, "wait_for_stop", queues, &args, sizeof(args), &shape, &run),
          WARPBELL_ERROR_INVALID, "block 5000");
    shape.block = 0;
    shape.grid = 8449;
    shape.cooperative = 1;
    FAILS(warpbell_launch(program, "wait_for_stop", queues, &args, sizeof(args), &shape, &run),
          WARPBELL_ERROR_INVALID, "8449 blocks of 32 threads at the same time: at most 8448 on target cpu");
    THAT(run == NULL);
}

/* One that runs until it is told to stop, and what is busy meanwhile. */
static void stopping(warpbell_queues* queues, warpbell_program* program) {
    struct stop_args args;
    warpbell_buffer* seen;
    warpbell_buffer_ref ref;
    warpbell_run* run;
    void* host;
    size_t bytes;
    OK(warpbell_buffer_alloc(queues, 32 * 8, &seen));
    OK(warpbell_buffer_get_ref(seen, &ref));
    OK(warpbell_buffer_get_host(seen, &host, &bytes));
    OK(warpbell_queues_get_mailbox(queues, &args.mailbox));
    args.seen = ref.data;
    OK(warpbell_launch(program, "wait_for_stop", queues, &args, sizeof(args), NULL, &run));
    FAILS(warpbell_run_wait(run, 0), WARPBELL_ERROR_TIMEOUT, "wait_for_stop still runs");
    FAILS(warpbell_run_wait(run, 3000000), WARPBELL_ERROR_TIMEOUT, "after 3ms");
    FAILS(warpbell_run_close(run), WARPBELL_ERROR_BUSY, "warpbell_run_wait");
    FAILS(warpbell_buffer_close(seen), WARPBELL_ERROR_BUSY, "1 open: close each run first");
    FAILS(warpbell_queues_close(queues), WARPBELL_ERROR_BUSY, "close each run first");
    THAT(((uint64_t*)host)[31] == 0);
    OK(warpbell_queues_stop(queues));
    OK(warpbell_run_wait(run, UINT64_MAX));
    OK(warpbell_run_wait(run, 0));
    THAT(((uint64_t*)host)[0] == 42 && ((uint64_t*)host)[31] == 42);
    OK(warpbell_run_close(run));
    FAILS(warpbell_run_wait(run, 0), WARPBELL_ERROR_HANDLE, "was closed before");
    /* The old wish to stop is no wish of the next run. */
    OK(warpbell_launch(program, "wait_for_stop", queues, &args, sizeof(args), NULL, &run));
    FAILS(warpbell_run_wait(run, 1000000), WARPBELL_ERROR_TIMEOUT, "still runs");
    OK(warpbell_queues_stop(queues));
    OK(warpbell_run_wait(run, UINT64_MAX));
    OK(warpbell_run_close(run));
    OK(warpbell_buffer_close(seen));
}

static const char* const LEAVE =
    "#include <warpbell/warpbell.cuh>\n"
    "struct leave_args { warpbell_namespace_ref ns; warpbell_buffer_ref data; };\n"
    "WARPBELL_KERNEL(leave, leave_args) {\n"
    "    using namespace warpbell;\n"
    "    session<sharing::exclusive> ssd(this_warp(), args.ns, 0);\n"
    "    dma_span data(args.data);\n"
    "    io_token token = submit(this_warp(), ssd, command::read(extent{lba(0), 1}, data));\n"
    "    ssd.detach(this_warp());\n"
    "}\n";

struct leave_args {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref data;
};

/* A kernel leaves a command behind: its buffer goes only with the queues. */
static void leaving(warpbell_queues* queues) {
    struct leave_args args;
    warpbell_buffer* data;
    warpbell_program* program;
    warpbell_run* run;
    OK(warpbell_buffer_alloc(queues, 4096, &data));
    OK(warpbell_buffer_get_ref(data, &args.data));
    OK(warpbell_queues_get_namespace_ref(queues, &args.ns));
    OK(warpbell_program_compile("cpu", "leave.cu", LEAVE, NULL, &program));
    OK(warpbell_launch(program, "leave", queues, &args, sizeof(args), NULL, &run));
    OK(warpbell_program_close(program));
    OK(warpbell_run_wait(run, UINT64_MAX));
    OK(warpbell_run_close(run));
    FAILS(warpbell_buffer_close(data), WARPBELL_ERROR_BUSY, "1 commands on queue");
    OK(warpbell_queues_close(queues));
    FAILS(warpbell_buffer_close(data), WARPBELL_ERROR_HANDLE, "was closed before");
}

static warpbell_ssd* shared_ssd;

/* Each thread has errors, and an SSD, of its own, and all read from one besides. */
static void* worker(void* number) {
    char name[40], wanted[40];
    unsigned char data[4096];
    int i;
    warpbell_ssd *ssd, *none;
    snprintf(name, sizeof(name), "thread-%d", *(int*)number);
    snprintf(wanted, sizeof(wanted), "device 'thread-%d'", *(int*)number);
    for (i = 0; i < 20; ++i) {
        if (warpbell_ssd_open(name, NULL, &none) != WARPBELL_ERROR_INVALID ||
            warpbell_ssd_open("soft:size=1m", NULL, &ssd) != WARPBELL_OK ||
            warpbell_ssd_read(shared_ssd, 0, (uint64_t)i, data, sizeof(data)) != WARPBELL_OK ||
            warpbell_ssd_close(ssd) != WARPBELL_OK ||
            strncmp(warpbell_error_message(), wanted, strlen(wanted)) != 0) {
            return (void*)1;
        }
    }
    return NULL;
}

static void threads(void) {
    pthread_t thread[4];
    int number[4] = {0, 1, 2, 3}, i;
    void* failed;
    for (i = 0; i < 4; ++i) {
        THAT(pthread_create(&thread[i], NULL, worker, &number[i]) == 0);
    }
    for (i = 0; i < 4; ++i) {
        THAT(pthread_join(thread[i], &failed) == 0);
        THAT(failed == NULL);
    }
}

int main(void) {
    warpbell_queues* queues;
    warpbell_program* program;
    OK(warpbell_ssd_open("soft:size=1m", NULL, &shared_ssd));
    OK(warpbell_queues_attach(shared_ssd, NULL, &queues));
    compiling();
    program = compile();
    launching(queues, program);
    stopping(queues, program);
    OK(warpbell_program_close(program));
    leaving(queues);
    threads();
    OK(warpbell_ssd_close(shared_ssd));
    printf("%d checks\n", checks);
    return 0;
}
