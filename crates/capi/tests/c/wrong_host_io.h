/* Wrong inputs over host_io.h: a part of the table of wrong_inputs.c. */
#ifndef WRONG_HOST_IO_H
#define WRONG_HOST_IO_H

#include "wrong.h"
#include <sys/mman.h>
#include <warpbell/host_io.h>

#define INVALID WARPBELL_ERROR_INVALID
#define HANDLE WARPBELL_ERROR_HANDLE
#define PAGE 4096u

static warpbell_ssd* closed_ssd;

static void io_buffers(warpbell_ssd* ssd) {
    warpbell_io_buffer *buffer, *none;
    unsigned char* const page =
        mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void* memory;
    ROW(warpbell_io_buffer_alloc(ssd, 0, &memory, &none), INVALID, "bytes", "0", "at least 1");
    ROW(warpbell_io_buffer_alloc(ssd, 1, NULL, &none), INVALID, "memory", "NULL", "is");
    ROW(warpbell_io_buffer_alloc(ssd, 1, &memory, NULL), INVALID, "buffer", "NULL", "is");
    ROW(warpbell_io_buffer_alloc(closed_ssd, 1, &memory, &none), HANDLE, "ssd", "was closed", "before");
    ROW(warpbell_io_buffer_register(ssd, NULL, PAGE, &none), INVALID, "memory", "NULL", "is");
    ROW(warpbell_io_buffer_register(ssd, page + 2, PAGE, &none), INVALID, "memory 0x", "02", "multiple of 4");
    ROW(warpbell_io_buffer_register(ssd, page, 0, &none), INVALID, "bytes", "0", "from 1");
    ROW(warpbell_io_buffer_register(ssd, page, SIZE_MAX, &none), INVALID, "bytes", "18446744073709551615",
        "from 1");
    ROW(warpbell_io_buffer_register(ssd, (void*)16, 16, &none), INVALID, "memory 0x10", "address 0",
        "lies in");
    munmap(page + PAGE, PAGE);
    ROW(warpbell_io_buffer_register(ssd, page + 4, PAGE, &none), INVALID, "memory", "not mapped", "writable");
    NEED(warpbell_io_buffer_register(ssd, page, PAGE, &buffer));
    ROW(warpbell_io_buffer_register(ssd, page + 8, 8, &none), INVALID, "memory", "8 bytes", "overlaps");
    ROW(warpbell_buffer_close((warpbell_buffer*)(void*)buffer), HANDLE, "buffer", "another kind",
        "I/O buffer");
    NEED(warpbell_io_buffer_close(buffer));
    ROW(warpbell_io_buffer_close(buffer), HANDLE, "buffer", "was closed", "before");
    munmap(page, PAGE);
}

static void io_queues(warpbell_ssd* ssd) {
    warpbell_io_queue_options chosen = WARPBELL_IO_QUEUE_OPTIONS_INIT;
    warpbell_io_queue* none;
    ROW(warpbell_io_queue_create(ssd, NULL, NULL), INVALID, "queue", "NULL", "is");
    ROW(warpbell_io_queue_create(NULL, NULL, &none), HANDLE, "ssd", "NULL", "no handle");
    chosen.depth = 65536;
    ROW(warpbell_io_queue_create(ssd, &chosen, &none), INVALID, "depth", "65536", "take 1 to");
    chosen.depth = 0, chosen.nsid = 9;
    ROW(warpbell_io_queue_create(ssd, &chosen, &none), INVALID, "namespace", "9", "the device has");
    chosen.nsid = 0, chosen.size = 4;
    ROW(warpbell_io_queue_create(ssd, &chosen, &none), INVALID, "warpbell_io_queue_options", "size 4",
        "8 to");
}

static warpbell_error submit(warpbell_io_queue* queue, uint32_t op, uint64_t lba, uint64_t bytes,
                             void* data) {
    warpbell_io_request asked = {0, 0, 0, 0, NULL, 0};
    uint32_t count;
    asked.op = op, asked.lba = lba, asked.bytes = bytes, asked.data = data;
    return warpbell_io_submit(queue, &asked, 1, &count);
}

static void io_requests(warpbell_ssd* ssd) {
    warpbell_io_request asked = {WARPBELL_IO_READ, 1, 0, 512, NULL, 0};
    warpbell_io_completion done;
    warpbell_io_buffer* buffer;
    warpbell_io_queue* queue;
    unsigned char* data;
    void* memory;
    uint32_t count;
    NEED(warpbell_io_queue_create(ssd, NULL, &queue));
    NEED(warpbell_io_buffer_alloc(ssd, PAGE, &memory, &buffer));
    data = memory;
    ROW(submit(queue, 0, 0, 512, data), INVALID, "op", "0", "WARPBELL_IO_READ");
    ROW(submit(queue, 6, 0, 512, data), INVALID, "op", "6", "WARPBELL_IO_WRITE_ZEROES");
    ROW(submit(queue, WARPBELL_IO_READ, 0, 512, NULL), INVALID, "data", "NULL", "is");
    ROW(submit(queue, WARPBELL_IO_READ, 0, 512, data + 2), INVALID, "data", "2", "multiple of 4");
    ROW(submit(queue, WARPBELL_IO_READ, 0, 512, data + PAGE), INVALID, "data", "512 bytes",
        "warpbell_io_buffer_register");
    ROW(submit(queue, WARPBELL_IO_READ, 0, 512, data - 4), INVALID, "data", "512 bytes", "one open buffer");
    ROW(submit(queue, WARPBELL_IO_READ, 0, 2 * PAGE, data), INVALID, "data", "8192 bytes", "one open buffer");
    ROW(submit(queue, WARPBELL_IO_READ, 0, 100, data), INVALID, "bytes", "100", "512 bytes");
    ROW(submit(queue, WARPBELL_IO_READ, 0, 0, data), INVALID, "bytes", "0", "512 bytes");
    ROW(submit(queue, WARPBELL_IO_WRITE, 2048, 512, data), INVALID, "lba", "2048", "0 to 2047");
    ROW(submit(queue, WARPBELL_IO_TRIM, UINT64_MAX, 1024, NULL), INVALID, "lba", "18446744073709551615",
        "0 to 2047");
    ROW(submit(queue, WARPBELL_IO_TRIM, 0, 512, data), INVALID, "data", "trim", "NULL");
    ROW(submit(queue, WARPBELL_IO_FLUSH, 0, 0, data), INVALID, "data", "flush", "NULL");
    ROW(submit(queue, WARPBELL_IO_FLUSH, 1, 512, NULL), INVALID, "lba 1 and 512 bytes", "flush", "0 and 0");
    ROW(warpbell_io_submit(queue, &asked, 1, &count), INVALID, "pad0", "1", "0");
    ROW(warpbell_io_submit(queue, NULL, 1, &count), INVALID, "requests", "NULL", "is");
    ROW(warpbell_io_submit(queue, (void*)(data + 4), 1, &count), INVALID, "requests", "04", "8 bytes");
    ROW(warpbell_io_submit(queue, &asked, 1, NULL), INVALID, "submitted", "NULL", "is");
    ROW(warpbell_io_poll(queue, 0, 1, 0, NULL, &count), INVALID, "completions", "NULL", "is");
    ROW(warpbell_io_poll(queue, 0, 1, 0, &done, NULL), INVALID, "completed", "NULL", "is");
    ROW(warpbell_io_poll(queue, 2, 1, 0, &done, &count), INVALID, "min", "2", "at most max, 1");
    NEED(warpbell_io_buffer_close(buffer));
    ROW(submit(queue, WARPBELL_IO_READ, 0, 512, data), INVALID, "data", "512 bytes", "one open buffer");
    NEED(warpbell_io_queue_close(queue));
    ROW(submit(queue, WARPBELL_IO_READ, 0, 512, data), HANDLE, "queue", "was closed", "before");
    ROW(warpbell_io_poll(queue, 0, 1, 0, &done, &count), HANDLE, "queue", "was closed", "before");
    ROW(warpbell_io_queue_close(queue), HANDLE, "queue", "was closed", "before");
}

#endif
