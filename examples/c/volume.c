/* Makes a striped volume of several SSDs, writes an array of the program's to it, and reads it back with
 * requests that are in flight at once, by the SSDs and not by a kernel.
 *
 *     cc volume.c $(pkg-config --cflags --libs warpbell) -o volume
 *     ./volume                                   # three software controllers
 *     ./volume soft:file=a.img soft:file=b.img   # overwrites the first 4 MiB of the volume in these files
 *
 * Other SSDs are written only where the library is told their names (allow_write), as here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <warpbell/volume.h>

#define MOST 8
#define BYTES (4u << 20)
/* Reads that are in flight at once. */
#define PARTS 16

/* Ends the program with the library's words; its codes 1 to 4 are the command's exit codes. */
static void check(warpbell_error error, const char* what) {
    if (error != WARPBELL_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, warpbell_error_name(error), warpbell_error_message());
        exit((int)error);
    }
}

/* Waits for so many requests. */
static void finish(warpbell_volume_io* io, int requests) {
    warpbell_volume_io_end end = WARPBELL_VOLUME_IO_END_INIT;
    for (; requests > 0; --requests) {
        check(warpbell_volume_io_next(io, UINT64_MAX, &end), "wait");
        if (end.error != WARPBELL_OK) {
            fprintf(stderr, "request %llu: %s\n", (unsigned long long)end.request, end.text);
            exit((int)end.error);
        }
    }
}

/* Writes all of the array by one request, and reads it by PARTS of them. */
static void use(warpbell_volume* volume, uint32_t* array) {
    warpbell_volume_io_options options = WARPBELL_VOLUME_IO_OPTIONS_INIT;
    warpbell_volume_info info = WARPBELL_VOLUME_INFO_INIT;
    warpbell_volume_buffer* buffer;
    warpbell_volume_io* io;
    uint64_t request, part;
    options.write = 1;
    check(warpbell_volume_get_info(volume, &info), "volume");
    check(warpbell_volume_io_open(volume, &options, &io), "open I/O");
    check(warpbell_volume_buffer_register(volume, array, BYTES, &buffer), "register");
    check(warpbell_volume_io_write(io, buffer, 0, 0, BYTES / info.block_bytes, &request), "write");
    finish(io, 1);
    check(warpbell_volume_io_flush(io, &request), "flush");
    finish(io, 1);
    memset(array, 0, BYTES);
    for (part = 0; part < PARTS; ++part) {
        const uint64_t at = part * (BYTES / PARTS);
        check(warpbell_volume_io_read(io, buffer, at, at / info.block_bytes, BYTES / PARTS / info.block_bytes,
                                      &request),
              "read");
    }
    finish(io, PARTS);
    check(warpbell_volume_buffer_close(buffer), "close the buffer");
    check(warpbell_volume_io_close(io), "close I/O");
}

int main(int argc, char** argv) {
    static const char* const soft[] = {"soft:size=16m", "soft:size=16m", "soft:size=16m"};
    const char* const* names = argc > 1 ? (const char* const*)argv + 1 : soft;
    const uint32_t count = argc > 1 ? (uint32_t)(argc - 1) : 3;
    warpbell_ssd* ssds[MOST];
    warpbell_queues* queues[MOST];
    warpbell_volume* volume;
    uint32_t* array = (uint32_t*)malloc(BYTES);
    uint32_t i, right = 0;
    if (array == NULL || count > MOST) {
        fprintf(stderr, "at most %d SSDs, and %u bytes of memory\n", MOST, BYTES);
        return WARPBELL_ERROR_INVALID;
    }
    for (i = 0; i < count; ++i) {
        warpbell_open_options options = WARPBELL_OPEN_OPTIONS_INIT;
        const char* file = strncmp(names[i], "soft:file=", 10) == 0 ? names[i] + 10 : names[i];
        const char* writable[2];
        writable[0] = file, writable[1] = NULL;
        options.allow_write = writable;
        check(warpbell_ssd_open(names[i], &options, &ssds[i]), "open");
        check(warpbell_queues_attach(ssds[i], NULL, &queues[i]), "attach");
    }
    check(warpbell_volume_create(queues, count, NULL, &volume), "volume");
    for (i = 0; i < BYTES / sizeof(*array); ++i) {
        array[i] = i * 2654435761u;
    }
    use(volume, array);
    for (i = 0; i < BYTES / sizeof(*array); ++i) {
        right += array[i] == i * 2654435761u;
    }
    printf("%u of %u numbers, read from a volume of %u SSDs: %s\n", right, (unsigned)(BYTES / sizeof(*array)),
           count, right == BYTES / sizeof(*array) ? "right" : "wrong");
    check(warpbell_volume_close(volume), "close the volume");
    for (i = 0; i < count; ++i) {
        check(warpbell_queues_close(queues[i]), "detach");
        check(warpbell_ssd_close(ssds[i]), "close");
    }
    free(array);
    return right != BYTES / sizeof(*array);
}
