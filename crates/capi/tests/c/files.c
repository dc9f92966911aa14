/* Files: what is in them, where they lie, and kernels that read them by offset and through a page cache. The
 * image that the program is given has an ext4 with /data/words: word i is i * 2654435761, but for a hole. */
#include "expect.h"
#include <warpbell/file.h>

enum { WORDS = 40000, HOLE_FIRST = 4096, HOLE_END = 12288 };

static const char* const SOURCE =
    "#include <warpbell/array.cuh>\n"
    "#include <warpbell/file_cache.cuh>\n"
    "#include <warpbell/warpbell.cuh>\n"
    "using namespace warpbell;\n"
    "struct read_args { warpbell_namespace_ref ns; warpbell_file_ref file; warpbell_buffer_ref data;\n"
    "    uint64_t offset; };\n"
    "WARPBELL_KERNEL(read_blocks, read_args) { /* lane i reads block i from the offset on */\n"
    "    const warpbell_buffer_ref memory = args.data;\n"
    "    session<sharing::shared> ssd(this_warp(), args.ns, 0);\n"
    "    const file f(args.file);\n"
    "    const dma_span mine = dma_span(memory).subspan(port::lane() * 512u, 512);\n"
    "    const optional<u64> from(args.offset + port::lane() * 512u);\n"
    "    const status s = read_each(this_warp(), ssd, f, from, mine);\n"
    "    if (!s.ok()) { mine.data<uint32_t>()[0] = ~0u; }\n"
    "    ssd.detach(this_warp());\n"
    "}\n"
    "struct sum_args { warpbell_namespace_ref ns; warpbell_file_ref file; warpbell_buffer_ref pages;\n"
    "    warpbell_cache_ref cache; uint64_t count, sums; };\n"
    "WARPBELL_KERNEL(sum_words, sum_args) {\n"
    "    const warpbell_buffer_ref memory = args.pages;\n"
    "    session<sharing::shared> ssd(this_warp(), args.ns, 0);\n"
    "    file_source<sharing::shared> source(ssd, file(args.file));\n"
    "    page_cache<decltype(source), page_access::read_only> pages(this_warp(), args.cache, source,\n"
    "        dma_span(memory));\n"
    "    array_view<uint32_t, decltype(pages)> x(pages, 0, args.count);\n"
    "    uint64_t sum = 0;\n"
    "    for (uint64_t i = 0; i < args.count; i += 32u) { sum += x[i + port::lane()]; }\n"
    "    reinterpret_cast<uint64_t*>(args.sums)[port::lane()] = sum;\n"
    "    pages.detach(this_warp());\n"
    "    ssd.detach(this_warp());\n"
    "}\n";

static warpbell_ssd* ssd;
static warpbell_queues* queues;
static warpbell_program* program;

static uint32_t word(uint32_t index) {
    return index >= HOLE_FIRST && index < HOLE_END ? 0 : index * UINT32_C(2654435761);
}

static void done(warpbell_run* run) {
    OK(warpbell_run_wait(run, UINT64_C(60000000000)));
    OK(warpbell_run_close(run));
}

/* Size, places and bytes, by the host. */
static void by_the_host(warpbell_file* file) {
    static uint32_t words[WORDS];
    warpbell_file_info info = WARPBELL_FILE_INFO_INIT;
    warpbell_file_part part = WARPBELL_FILE_PART_INIT;
    uint64_t index, end = 0, held = 0;
    uint32_t i, first;
    OK(warpbell_file_get_info(file, &info));
    THAT(info.bytes == WORDS * 4 && info.hole_bytes == (HOLE_END - HOLE_FIRST) * 4);
    THAT(info.nsid == 1 && info.block_bytes == 512 && info.size == sizeof(info) && info.extents >= 2);
    for (index = 0; index < info.extents; ++index) {
        OK(warpbell_file_get_extent(file, index, &part));
        THAT(part.offset >= end && part.bytes > 0);
        end = part.offset + part.bytes, held += part.bytes;
        OK(warpbell_ssd_read(ssd, 0, part.at / 512, words, 512));
        THAT(words[1] == word((uint32_t)part.offset / 4 + 1));
    }
    THAT(held >= info.bytes - info.hole_bytes);
    FAILS(warpbell_file_get_extent(file, info.extents, &part), WARPBELL_ERROR_INVALID, "the file has");
    OK(warpbell_file_read(file, 0, words, sizeof(words)));
    for (i = 0; i < WORDS; ++i) {
        THAT(words[i] == word(i));
    }
    OK(warpbell_file_read(file, 4 * HOLE_FIRST - 2, &first, 4));
    THAT(first == word(HOLE_FIRST - 1) >> 16);
    FAILS(warpbell_file_read(file, WORDS * 4 - 3, &first, 4), WARPBELL_ERROR_INVALID,
          "offset 159997 and 4 bytes: the file has 160000 bytes");
}

static void by_kernels(warpbell_file_table* table) {
    struct {
        warpbell_namespace_ref ns;
        warpbell_file_ref file;
        warpbell_buffer_ref data;
        uint64_t offset;
    } args;
    warpbell_buffer* buffer;
    warpbell_run* run;
    void* host;
    size_t bytes;
    uint32_t i;
    OK(warpbell_buffer_alloc(queues, 32 * 512, &buffer));
    OK(warpbell_buffer_get_host(buffer, &host, &bytes));
    memset(host, 0x77, bytes);
    OK(warpbell_queues_get_namespace_ref(queues, &args.ns));
    OK(warpbell_file_table_get_ref(table, &args.file));
    OK(warpbell_buffer_get_ref(buffer, &args.data));
    args.offset = 4 * HOLE_FIRST - 8 * 512;
    OK(warpbell_launch(program, "read_blocks", queues, &args, sizeof(args), NULL, &run));
    FAILS(warpbell_file_table_close(table), WARPBELL_ERROR_BUSY, "close each run first");
    done(run);
    for (i = 0; i < 32 * 128; ++i) {
        THAT(((uint32_t*)host)[i] == word((uint32_t)args.offset / 4 + i));
    }
    OK(warpbell_buffer_close(buffer));
}

static void by_pages(warpbell_file_table* table) {
    struct {
        warpbell_namespace_ref ns;
        warpbell_file_ref file;
        warpbell_buffer_ref pages;
        warpbell_cache_ref cache;
        uint64_t count, sums;
    } args;
    warpbell_cache_options chosen = WARPBELL_CACHE_OPTIONS_INIT;
    warpbell_cache_info info = WARPBELL_CACHE_INFO_INIT;
    warpbell_cache_counters counted = WARPBELL_CACHE_COUNTERS_INIT;
    warpbell_buffer *pages, *sums;
    warpbell_buffer_ref ref;
    warpbell_cache* cache;
    warpbell_run* run;
    void* host;
    size_t bytes;
    uint64_t sum = 0;
    uint32_t i;
    chosen.lines = 8;
    OK(warpbell_file_table_cache(table, &chosen, &cache));
    OK(warpbell_cache_get_info(cache, &info));
    THAT(info.pages == (WORDS * 4 + 4095) / 4096 && info.page_bytes == 4096);
    OK(warpbell_buffer_alloc(queues, info.buffer_bytes, &pages));
    OK(warpbell_buffer_alloc(queues, 32 * 8, &sums));
    OK(warpbell_buffer_get_host(sums, &host, &bytes));
    OK(warpbell_queues_get_namespace_ref(queues, &args.ns));
    OK(warpbell_file_table_get_ref(table, &args.file));
    OK(warpbell_buffer_get_ref(pages, &args.pages));
    OK(warpbell_cache_get_ref(cache, &args.cache));
    OK(warpbell_buffer_get_ref(sums, &ref));
    args.count = WORDS, args.sums = ref.data;
    OK(warpbell_launch(program, "sum_words", queues, &args, sizeof(args), NULL, &run));
    done(run);
    for (i = 0; i < WORDS; ++i) {
        sum -= word(i);
    }
    for (i = 0; i < 32; ++i) {
        sum += ((uint64_t*)host)[i];
    }
    THAT(sum == 0);
    OK(warpbell_cache_get_counters(cache, &counted));
    THAT(counted.misses == info.pages && counted.error_status == 0);
    FAILS(warpbell_file_table_close(table), WARPBELL_ERROR_BUSY, "warpbell_cache_close");
    OK(warpbell_cache_close(cache));
}

/* Queues of another namespace, or of another SSD, are refused, and both are named. */
static void elsewhere(const char* device, warpbell_file* file) {
    warpbell_attach_options wanted = WARPBELL_ATTACH_OPTIONS_INIT;
    warpbell_queues *second, *foreign;
    warpbell_file_table* none;
    warpbell_ssd* other;
    wanted.nsid = 2, wanted.sharing = WARPBELL_SHARING_SHARED;
    OK(warpbell_queues_attach(ssd, &wanted, &second));
    FAILS(warpbell_queues_file(second, file, &none), WARPBELL_ERROR_INVALID, "file of namespace 1 of soft:");
    THAT(none == NULL &&
         strstr(warpbell_error_message(), "cannot be used with namespace 2 of soft:") != NULL);
    OK(warpbell_ssd_open("soft:size=1m", NULL, &other));
    OK(warpbell_queues_attach(other, NULL, &foreign));
    FAILS(warpbell_queues_file(foreign, file, &none), WARPBELL_ERROR_INVALID, "namespace 1 of soft:size=1m");
    THAT(strstr(warpbell_error_message(), device) != NULL);
    OK(warpbell_queues_close(foreign));
    OK(warpbell_ssd_close(other));
    OK(warpbell_queues_close(second));
}

static void refusals(void) {
    warpbell_file_options chosen = WARPBELL_FILE_OPTIONS_INIT;
    warpbell_file_info info = WARPBELL_FILE_INFO_INIT;
    warpbell_file* file = (warpbell_file*)1;
    char byte;
    FAILS(warpbell_file_open(ssd, "/data/none", NULL, &file), WARPBELL_ERROR_INVALID, "there is no \"none\"");
    THAT(file == NULL);
    FAILS(warpbell_file_open(ssd, "/data", NULL, &file), WARPBELL_ERROR_INVALID, "/data: it is a folder");
    FAILS(warpbell_file_open(ssd, NULL, NULL, &file), WARPBELL_ERROR_INVALID, "path: is NULL");
    FAILS(warpbell_file_open(ssd, "/data/words", NULL, NULL), WARPBELL_ERROR_INVALID, "file: is NULL");
    FAILS(warpbell_file_open(NULL, "/data/words", NULL, &file), WARPBELL_ERROR_HANDLE, "ssd: NULL");
    chosen.nsid = 2;
    FAILS(warpbell_file_open(ssd, "/data/words", &chosen, &file), WARPBELL_ERROR_REFUSED,
          "none that is known begins here");
    chosen.nsid = 7;
    FAILS(warpbell_file_open(ssd, "/data/words", &chosen, &file), WARPBELL_ERROR_INVALID, "namespace 7");
    chosen.nsid = 0, chosen.partition = "1";
    FAILS(warpbell_file_open(ssd, "/data/words", &chosen, &file), WARPBELL_ERROR_INVALID,
          "partition 1: there is no partition table");
    chosen.manifest = "m.json";
    FAILS(warpbell_file_open(ssd, "/data/words", &chosen, &file), WARPBELL_ERROR_INVALID, "manifest m.json");
    chosen.partition = NULL, chosen.manifest = "/nowhere/m.json";
    FAILS(warpbell_file_open(ssd, "/data/words", &chosen, &file), WARPBELL_ERROR_FAILED, "/nowhere/m.json");
    chosen.manifest = NULL, chosen.api_version = 99;
    FAILS(warpbell_file_open(ssd, "/data/words", &chosen, &file), WARPBELL_ERROR_INVALID, "api_version 99");
    FAILS(warpbell_file_get_info(NULL, &info), WARPBELL_ERROR_HANDLE, "file: NULL");
    FAILS(warpbell_file_get_info((warpbell_file*)(void*)ssd, &info), WARPBELL_ERROR_HANDLE, "another kind");
    FAILS(warpbell_file_read(NULL, 0, &byte, 1), WARPBELL_ERROR_HANDLE, "file: NULL");
    FAILS(warpbell_file_table_close(NULL), WARPBELL_ERROR_HANDLE, "file table: NULL");
}

int main(int argc, char** argv) {
    warpbell_attach_options wanted = WARPBELL_ATTACH_OPTIONS_INIT;
    warpbell_file_table* table;
    warpbell_file* file;
    char device[4200];
    THAT(argc == 2);
    snprintf(device, sizeof(device), "soft:file=%s,size=1m", argv[1]);
    OK(warpbell_ssd_open(device, NULL, &ssd));
    wanted.sharing = WARPBELL_SHARING_SHARED;
    OK(warpbell_queues_attach(ssd, &wanted, &queues));
    OK(warpbell_program_compile("cpu", "files.cu", SOURCE, NULL, &program));
    OK(warpbell_file_open(ssd, "/data/words", NULL, &file));
    by_the_host(file);
    FAILS(warpbell_queues_file(queues, file, NULL), WARPBELL_ERROR_INVALID, "table: is NULL");
    OK(warpbell_queues_file(queues, file, &table));
    elsewhere(device, file);
    refusals();
    FAILS(warpbell_ssd_close(ssd), WARPBELL_ERROR_BUSY, "warpbell_file_close");
    OK(warpbell_file_close(file));
    FAILS(warpbell_file_close(file), WARPBELL_ERROR_HANDLE, "file: handle 1 was closed before");
    /* The table has its own copy of where the file lies. */
    by_kernels(table);
    by_pages(table);
    FAILS(warpbell_queues_close(queues), WARPBELL_ERROR_BUSY, "warpbell_file_table_close");
    OK(warpbell_file_table_close(table));
    OK(warpbell_program_close(program));
    OK(warpbell_queues_close(queues));
    OK(warpbell_ssd_close(ssd));
    printf("%d checks\n", checks);
    return 0;
}
