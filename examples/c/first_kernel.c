/* Opens an SSD, compiles ../first_kernel.cu, lets it read 32 blocks, and compares its sums with the host's.
 *
 *     cc first_kernel.c $(pkg-config --cflags --libs warpbell) -o first_kernel
 *     ./first_kernel ../first_kernel.cu                  # on the CPU, with the software controller
 *     ./first_kernel ../first_kernel.cu cuda:0 0000:41:00.0
 *
 * It fills the first blocks of the software controller's memory before. Any other SSD is only read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <warpbell/warpbell.h>

#define LANES 32

/* The kernel's argument, as first_kernel.cu has it. */
struct sum_args {
    warpbell_namespace_ref ns;
    warpbell_buffer_ref data, sums;
};

/* Ends the program with the library's words; its codes 1 to 4 are the command's exit codes. */
static void check(warpbell_error error, const char* what) {
    if (error != WARPBELL_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, warpbell_error_name(error), warpbell_error_message());
        exit((int)error);
    }
}

static void fill(warpbell_ssd* ssd, unsigned char* blocks, size_t bytes) {
    size_t i;
    for (i = 0; i < bytes; ++i) {
        blocks[i] = (unsigned char)(i * 7 + i / 512);
    }
    check(warpbell_ssd_write(ssd, 0, 0, blocks, bytes), "write");
}

/* Runs the kernel over the first 32 blocks, and waits for it. */
static void sum_blocks(warpbell_queues* queues, const char* target, const char* source, warpbell_buffer* data,
                       warpbell_buffer* sums) {
    warpbell_program* program;
    warpbell_run* run;
    struct sum_args args;
    check(warpbell_program_compile_file(target, source, NULL, &program), "compile");
    check(warpbell_queues_get_namespace_ref(queues, &args.ns), "namespace");
    check(warpbell_buffer_get_ref(data, &args.data), "data");
    check(warpbell_buffer_get_ref(sums, &args.sums), "sums");
    check(warpbell_launch(program, "sum_blocks", queues, &args, sizeof(args), NULL, &run), "launch");
    check(warpbell_run_wait(run, UINT64_C(60000000000)), "wait");
    check(warpbell_run_close(run), "close the run");
    check(warpbell_program_close(program), "close the program");
}

/* Compares what the kernel found with the blocks as the host has them. */
static int compare(warpbell_buffer* sums, const unsigned char* blocks, size_t block_bytes) {
    void* memory;
    size_t bytes, lane, i;
    uint64_t found[LANES], word, sum;
    check(warpbell_buffer_get_host(sums, &memory, &bytes), "sums");
    memcpy(found, memory, sizeof(found));
    for (lane = 0; lane < LANES; ++lane) {
        for (sum = 0, i = 0; i < block_bytes; i += sizeof(word)) {
            memcpy(&word, blocks + lane * block_bytes + i, sizeof(word));
            sum += word;
        }
        if (found[lane] != sum) {
            fprintf(stderr, "block %u: the kernel found %llx, the host %llx\n", (unsigned)lane,
                    (unsigned long long)found[lane], (unsigned long long)sum);
            return 1;
        }
    }
    return 0;
}

int main(int argc, char** argv) {
    const char* source = argc > 1 ? argv[1] : "first_kernel.cu";
    const char* target = argc > 2 ? argv[2] : "cpu";
    const char* device = argc > 3 ? argv[3] : "soft:size=64m";
    warpbell_attach_options options = WARPBELL_ATTACH_OPTIONS_INIT;
    warpbell_namespace_info ns = WARPBELL_NAMESPACE_INFO_INIT;
    warpbell_ssd* ssd;
    warpbell_queues* queues;
    warpbell_buffer *data, *sums;
    unsigned char* blocks;
    size_t bytes;
    int differs;

    check(warpbell_ssd_open(device, NULL, &ssd), "open");
    check(warpbell_ssd_namespace(ssd, 0, &ns), "namespace");
    bytes = (size_t)LANES * ns.block_bytes;
    blocks = (unsigned char*)malloc(bytes);
    if (blocks == NULL) {
        return WARPBELL_ERROR_FAILED;
    }
    if (strncmp(device, "soft:size=", 10) == 0) {
        fill(ssd, blocks, bytes);
    } else {
        check(warpbell_ssd_read(ssd, 0, 0, blocks, bytes), "read");
    }

    options.target = target;
    check(warpbell_queues_attach(ssd, &options, &queues), "attach");
    check(warpbell_buffer_alloc(queues, bytes, &data), "buffer");
    check(warpbell_buffer_alloc(queues, LANES * sizeof(uint64_t), &sums), "buffer");
    sum_blocks(queues, target, source, data, sums);
    differs = compare(sums, blocks, ns.block_bytes);
    if (!differs) {
        printf("%d blocks of %u bytes, read by a kernel on target %s: right\n", LANES,
               (unsigned)ns.block_bytes, target);
    }

    check(warpbell_buffer_close(sums), "close a buffer");
    check(warpbell_buffer_close(data), "close a buffer");
    check(warpbell_queues_close(queues), "detach");
    check(warpbell_ssd_close(ssd), "close");
    free(blocks);
    return differs;
}
