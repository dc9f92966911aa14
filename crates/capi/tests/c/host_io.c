/* Asynchronous I/O of the host: each request ends once with its tag, split or not, in memory of the library's
 * and of the program's; failures of the SSD are statuses, misuse is an error. */
#include "expect.h"
#include <pthread.h>
#include <warpbell/host_io.h>

#define BLOCK 512u
#define MANY 32u

static unsigned char pattern(size_t i) { return (unsigned char)((i * 131u) >> 3); }

static warpbell_io_request request(uint32_t op, uint64_t lba, uint64_t bytes, void* data, uint64_t tag) {
    warpbell_io_request made;
    memset(&made, 0, sizeof(made));
    made.op = op, made.lba = lba, made.bytes = bytes, made.data = data, made.tag = tag;
    return made;
}

/* One request, to its end. */
static warpbell_io_completion one(warpbell_io_queue* queue, uint32_t op, uint64_t lba, uint64_t bytes,
                                  void* data) {
    const warpbell_io_request asked = request(op, lba, bytes, data, lba + 7);
    warpbell_io_completion done;
    uint32_t count = 9;
    OK(warpbell_io_submit(queue, &asked, 1, &count));
    THAT(count == 1);
    OK(warpbell_io_poll(queue, 1, 1, UINT64_MAX, &done, &count));
    THAT(count == 1 && done.tag == lba + 7);
    return done;
}

static void succeeds(warpbell_io_queue* queue, uint32_t op, uint64_t lba, uint64_t bytes, void* data) {
    const warpbell_io_completion done = one(queue, op, lba, bytes, data);
    THAT(done.status == 0 && done.bytes == bytes && done.pad0 == 0);
}

/* Writes and reads of 96 KiB, of commands of 16 KiB at most: more commands than the queue's depth. */
static void many(warpbell_ssd* ssd, uint32_t depth) {
    const size_t bytes = 96u << 10;
    warpbell_io_queue_options wanted = WARPBELL_IO_QUEUE_OPTIONS_INIT;
    warpbell_io_request asked[MANY];
    warpbell_io_completion done[MANY];
    warpbell_io_buffer* buffer;
    warpbell_io_queue* queue;
    uint32_t op, taken = 0, ended, count, seen;
    unsigned char* memory;
    void* found;
    size_t i;
    wanted.depth = depth;
    OK(warpbell_io_queue_create(ssd, &wanted, &queue));
    OK(warpbell_io_buffer_alloc(ssd, MANY * bytes, &found, &buffer));
    memory = found;
    THAT((uintptr_t)memory % 4096 == 0 && memory[0] == 0 && memory[MANY * bytes - 1] == 0);
    for (i = 0; i < MANY * bytes; ++i) {
        memory[i] = pattern(i);
    }
    for (op = WARPBELL_IO_WRITE; op >= WARPBELL_IO_READ; --op) {
        for (i = 0; i < MANY; ++i) {
            asked[i] = request(op, i * (bytes / BLOCK), bytes, memory + i * bytes, i);
        }
        for (taken = 0, ended = 0, seen = 0; ended < MANY; ended += count) {
            const warpbell_error error = warpbell_io_submit(queue, asked + taken, MANY - taken, &count);
            THAT(error == (taken + count < MANY ? WARPBELL_ERROR_BUSY : WARPBELL_OK));
            taken += count;
            THAT(taken - ended <= depth);
            OK(warpbell_io_poll(queue, 1, MANY, UINT64_MAX, done, &count));
            THAT(count >= 1 && count <= depth);
            for (i = 0; i < count; ++i) {
                THAT(done[i].tag < MANY && !(seen >> done[i].tag & 1) && done[i].status == 0);
                THAT(done[i].bytes == bytes);
                seen |= 1u << done[i].tag;
            }
        }
        THAT(seen == UINT32_MAX);
        if (op == WARPBELL_IO_WRITE) {
            memset(memory, 0, MANY * bytes);
        }
    }
    for (i = 0; i < MANY * bytes && memory[i] == pattern(i); ++i) {
    }
    THAT(i == MANY * bytes);
    OK(warpbell_io_buffer_close(buffer));
    OK(warpbell_io_queue_close(queue));
}

/* Memory that begins within a page, between bytes that stay as they are. */
static void registered(warpbell_ssd* ssd, warpbell_io_queue* queue) {
    unsigned char* const all = malloc(32u << 10);
    unsigned char* const mine = (unsigned char*)(((uintptr_t)all + 4095) / 4096 * 4096) + 1028;
    const size_t bytes = 16u << 10;
    warpbell_io_buffer *buffer, *other;
    size_t i;
    THAT(all != NULL);
    memset(all, 0xee, 32u << 10);
    OK(warpbell_io_buffer_register(ssd, mine, bytes, &buffer));
    FAILS(warpbell_io_buffer_register(ssd, mine + 4096, 512, &other), WARPBELL_ERROR_INVALID,
          "overlaps the open buffer");
    for (i = 0; i < bytes; ++i) {
        mine[i] = pattern(i);
    }
    succeeds(queue, WARPBELL_IO_WRITE, 0, bytes, mine);
    succeeds(queue, WARPBELL_IO_FLUSH, 0, 0, NULL);
    memset(mine, 0, bytes);
    /* The last part alone: the pages around it were mapped once. */
    succeeds(queue, WARPBELL_IO_READ, 30, 2 * BLOCK, mine + 30 * BLOCK);
    succeeds(queue, WARPBELL_IO_READ, 0, 30 * BLOCK, mine);
    for (i = 0; i < bytes && mine[i] == pattern(i); ++i) {
    }
    THAT(i == bytes && mine[-1] == 0xee && mine[bytes] == 0xee);
    succeeds(queue, WARPBELL_IO_TRIM, 1, BLOCK, NULL);
    succeeds(queue, WARPBELL_IO_WRITE_ZEROES, 3, 2 * BLOCK, NULL);
    succeeds(queue, WARPBELL_IO_READ, 0, 6 * BLOCK, mine);
    for (i = 0; i < 6 * BLOCK; ++i) {
        const size_t block = i / BLOCK;
        const int gone = block == 1 || block == 3 || block == 4;
        if (mine[i] != (gone ? 0 : pattern(i))) {
            break;
        }
    }
    THAT(i == 6 * BLOCK);
    OK(warpbell_io_buffer_close(buffer));
    OK(warpbell_io_buffer_register(ssd, mine + 4096, 512, &other));
    OK(warpbell_io_buffer_close(other));
    free(all);
}

/* What was submitted and not polled keeps queue, buffer and SSD open. */
static void busy(warpbell_ssd* ssd, warpbell_io_queue* queue, warpbell_io_buffer* buffer, void* memory) {
    const warpbell_io_request asked = request(WARPBELL_IO_READ, 0, BLOCK, memory, 1);
    warpbell_io_completion done;
    uint32_t count;
    OK(warpbell_io_submit(queue, &asked, 1, &count));
    FAILS(warpbell_io_queue_close(queue), WARPBELL_ERROR_BUSY, "1 requests were not polled");
    FAILS(warpbell_io_buffer_close(buffer), WARPBELL_ERROR_BUSY, "1 requests over it were not polled");
    FAILS(warpbell_ssd_close(ssd), WARPBELL_ERROR_BUSY, "warpbell_io_queue_close");
    FAILS(warpbell_io_poll(queue, 2, 1, UINT64_MAX, &done, &count), WARPBELL_ERROR_INVALID,
          "min 2: must be at most max, 1");
    OK(warpbell_io_poll(queue, 1, 1, UINT64_MAX, &done, &count));
    THAT(count == 1 && done.tag == 1);
    OK(warpbell_io_poll(queue, 0, 1, 0, &done, &count));
    THAT(count == 0);
}

static void* poll_for_a_while(void* queue) {
    warpbell_io_completion done;
    uint32_t count;
    warpbell_error error;
    /* The other thread may be in a call just now. */
    do {
        error = warpbell_io_poll(queue, 1, 1, 700000000u, &done, &count);
    } while (error == WARPBELL_ERROR_BUSY);
    THAT(error == WARPBELL_ERROR_TIMEOUT && strstr(warpbell_error_message(), "0 of 1 requests") != NULL);
    return NULL;
}

/* Reads of blocks 100 to 107 fail, one command on block 200 never completes, and one on 300 is late. */
static void faults(const char* plan) {
    warpbell_io_queue_options wanted = WARPBELL_IO_QUEUE_OPTIONS_INIT;
    warpbell_io_request asked[3];
    warpbell_io_completion done[3];
    warpbell_io_buffer* buffer;
    warpbell_io_queue* queue;
    warpbell_ssd* ssd;
    char device[4200];
    pthread_t thread;
    uint32_t count;
    void* memory;
    snprintf(device, sizeof(device), "soft:size=1m,mdts=1,faults=%s", plan);
    OK(warpbell_ssd_open(device, NULL, &ssd));
    wanted.timeout_ns = 2000000000u;
    OK(warpbell_io_queue_create(ssd, &wanted, &queue));
    OK(warpbell_io_buffer_alloc(ssd, 64u << 10, &memory, &buffer));
    done[0] = one(queue, WARPBELL_IO_READ, 90, 32 * BLOCK, memory);
    THAT(done[0].bytes == 0 &&
         strstr(warpbell_status_text(done[0].status), "Unrecovered Read Error") != NULL);
    succeeds(queue, WARPBELL_IO_READ, 90, 10 * BLOCK, memory);
    /* One call at a time. */
    asked[0] = request(WARPBELL_IO_READ, 300, BLOCK, memory, 1);
    OK(warpbell_io_submit(queue, asked, 1, &count));
    THAT(pthread_create(&thread, NULL, poll_for_a_while, queue) == 0);
    while (warpbell_io_submit(queue, asked, 0, &count) == WARPBELL_OK) {
    }
    FAILS(warpbell_io_submit(queue, asked, 1, &count), WARPBELL_ERROR_BUSY, "one thread at a time");
    THAT(pthread_join(thread, NULL) == 0);
    OK(warpbell_io_poll(queue, 1, 1, UINT64_MAX, done, &count));
    THAT(count == 1 && done[0].status == 0);
    /* With the command without an answer the queue goes, and what is on it. The next submission has another.
     */
    asked[0] = request(WARPBELL_IO_READ, 200, BLOCK, memory, 1);
    asked[1] = request(WARPBELL_IO_FLUSH, 0, 0, NULL, 2);
    OK(warpbell_io_submit(queue, asked, 2, &count));
    FAILS(warpbell_io_poll(queue, 1, 3, 1000000u, done, &count), WARPBELL_ERROR_TIMEOUT, "within 1ms");
    OK(warpbell_io_poll(queue, 1, 3, UINT64_MAX, done, &count));
    THAT(count == 1 && done[0].tag == 1);
    THAT(done[0].status == (WARPBELL_STATUS_LIBRARY | WARPBELL_STATUS_TIMED_OUT));
    OK(warpbell_io_poll(queue, 1, 3, UINT64_MAX, done, &count));
    THAT(count == 1 && done[0].tag == 2 && done[0].status == 0);
    succeeds(queue, WARPBELL_IO_READ, 200, BLOCK, memory);
    OK(warpbell_io_buffer_close(buffer));
    OK(warpbell_io_queue_close(queue));
    OK(warpbell_ssd_close(ssd));
}

/* A file that nobody permitted to write is read only. */
static void permission(const char* file) {
    const char* const allowed[] = {file, NULL};
    warpbell_open_options chosen = WARPBELL_OPEN_OPTIONS_INIT;
    warpbell_io_buffer* buffer;
    warpbell_io_queue* queue;
    warpbell_ssd* ssd;
    char device[4200];
    int permitted;
    snprintf(device, sizeof(device), "soft:file=%s", file);
    for (permitted = 0; permitted < 2; ++permitted) {
        warpbell_io_request asked = request(WARPBELL_IO_WRITE, 2, BLOCK, NULL, 1);
        uint32_t count, op;
        void* memory;
        chosen.allow_write = permitted ? allowed : NULL;
        OK(warpbell_ssd_open(device, &chosen, &ssd));
        OK(warpbell_io_queue_create(ssd, NULL, &queue));
        OK(warpbell_io_buffer_alloc(ssd, BLOCK, &memory, &buffer));
        memset(memory, 0x5a, BLOCK);
        if (permitted) {
            succeeds(queue, WARPBELL_IO_WRITE, 2, BLOCK, memory);
            succeeds(queue, WARPBELL_IO_FLUSH, 0, 0, NULL);
        } else {
            for (op = WARPBELL_IO_WRITE; op <= WARPBELL_IO_WRITE_ZEROES; ++op) {
                asked.op = op;
                asked.data = op == WARPBELL_IO_WRITE ? memory : NULL;
                if (op != WARPBELL_IO_FLUSH) {
                    FAILS(warpbell_io_submit(queue, &asked, 1, &count), WARPBELL_ERROR_REFUSED,
                          "allow_write");
                    THAT(count == 0);
                }
            }
            succeeds(queue, WARPBELL_IO_READ, 2, BLOCK, memory);
        }
        OK(warpbell_io_buffer_close(buffer));
        OK(warpbell_io_queue_close(queue));
        OK(warpbell_ssd_close(ssd));
    }
}

int main(int argc, char** argv) {
    warpbell_io_buffer* buffer;
    warpbell_io_queue* queue;
    warpbell_ssd* ssd;
    void* memory;
    THAT(argc == 3);
    OK(warpbell_ssd_open("soft:size=4m,mdts=2", NULL, &ssd));
    many(ssd, 1);
    many(ssd, 3);
    many(ssd, MANY);
    OK(warpbell_io_queue_create(ssd, NULL, &queue));
    registered(ssd, queue);
    OK(warpbell_io_buffer_alloc(ssd, BLOCK, &memory, &buffer));
    busy(ssd, queue, buffer, memory);
    OK(warpbell_io_buffer_close(buffer));
    OK(warpbell_io_queue_close(queue));
    FAILS(warpbell_io_queue_close(queue), WARPBELL_ERROR_HANDLE, "was closed before");
    OK(warpbell_ssd_close(ssd));
    permission(argv[1]);
    faults(argv[2]);
    printf("%d checks\n", checks);
    return 0;
}
