/* What the library refuses, by which code, and in which words. Arguments: a file of 1 MiB that it may write.
 */
#include "expect.h"

#define NO_HANDLE(type) ((type*)NULL)

static void versions(void) {
    THAT(warpbell_abi_version() == WARPBELL_ABI_VERSION);
    THAT(warpbell_api_version() == WARPBELL_API_VERSION);
    THAT(strchr(warpbell_version(), '.') != NULL);
    THAT(strcmp(warpbell_error_name(WARPBELL_ERROR_BUSY), "WARPBELL_ERROR_BUSY") == 0);
    THAT(strcmp(warpbell_error_name((warpbell_error)12), "unknown") == 0);
    THAT(strcmp(warpbell_error_message(), "") == 0);
    const uint32_t timed_out = WARPBELL_STATUS_LIBRARY | WARPBELL_STATUS_TIMED_OUT;
    uint32_t code;
    THAT(strstr(warpbell_status_text(timed_out), "deadline") != NULL);
    THAT(strstr(warpbell_status_text(WARPBELL_STATUS_LIBRARY | WARPBELL_STATUS_NO_ROOM), "no room") != NULL);
    for (code = 1; code <= WARPBELL_STATUS_OUT_OF_LEASE; ++code) {
        THAT(strstr(warpbell_status_text(WARPBELL_STATUS_LIBRARY | code), "device library status") == NULL);
    }
}

static void names(void) {
    warpbell_ssd* ssd = (warpbell_ssd*)1;
    FAILS(warpbell_ssd_open(NULL, NULL, &ssd), WARPBELL_ERROR_INVALID, "device: is NULL");
    THAT(ssd == NULL);
    FAILS(warpbell_ssd_open("soft:size=1m", NULL, NULL), WARPBELL_ERROR_INVALID, "ssd: is NULL");
    FAILS(warpbell_ssd_open("nvme0", NULL, &ssd), WARPBELL_ERROR_INVALID, "device 'nvme0': unknown form");
    FAILS(warpbell_ssd_open("\xff", NULL, &ssd), WARPBELL_ERROR_INVALID, "not UTF-8");
    FAILS(warpbell_ssd_open("soft:size=banana", NULL, &ssd), WARPBELL_ERROR_INVALID, "banana");
    FAILS(warpbell_ssd_open("soft:size=1m,time=virtual", NULL, &ssd), WARPBELL_ERROR_INVALID, "virtual time");
    FAILS(warpbell_ssd_open("vfio-user:/nowhere/at/all", NULL, &ssd), WARPBELL_ERROR_MISSING,
          "/nowhere/at/all");
    FAILS(warpbell_ssd_open("soft:file=/nowhere/at/all", NULL, &ssd), WARPBELL_ERROR_INVALID,
          "/nowhere/at/all");
}

static void options(void) {
    struct {
        warpbell_open_options known;
        uint32_t later[2];
    } longer = {WARPBELL_OPEN_OPTIONS_INIT, {0, 0}};
    struct {
        uint32_t api_version, size;
    } shorter = {WARPBELL_API_VERSION, 8};
    warpbell_open_options chosen = WARPBELL_OPEN_OPTIONS_INIT;
    warpbell_ssd* ssd;
    OK(warpbell_ssd_open("soft:size=1m", (const warpbell_open_options*)&shorter, &ssd));
    OK(warpbell_ssd_close(ssd));
    longer.known.size = sizeof(longer);
    OK(warpbell_ssd_open("soft:size=1m", &longer.known, &ssd));
    OK(warpbell_ssd_close(ssd));
    longer.later[1] = 1;
    FAILS(warpbell_ssd_open("soft:size=1m", &longer.known, &ssd), WARPBELL_ERROR_INVALID,
          "older than the header");
    chosen.queues = 65536;
    FAILS(warpbell_ssd_open("soft:size=1m", &chosen, &ssd), WARPBELL_ERROR_INVALID, "queues 65536");
    chosen.api_version = WARPBELL_API_VERSION + 1;
    FAILS(warpbell_ssd_open("soft:size=1m", &chosen, &ssd), WARPBELL_ERROR_INVALID, "api_version 9");
    chosen.api_version = 2;
    FAILS(warpbell_ssd_open("soft:size=1m", &chosen, &ssd), WARPBELL_ERROR_INVALID, "takes 3 to 8");
    chosen.api_version = WARPBELL_API_VERSION;
    chosen.size = 4;
    FAILS(warpbell_ssd_open("soft:size=1m", &chosen, &ssd), WARPBELL_ERROR_INVALID, "size 4");
}

static void handles(void) {
    warpbell_ssd_info info = WARPBELL_SSD_INFO_INIT;
    warpbell_namespace_info ns = WARPBELL_NAMESPACE_INFO_INIT;
    warpbell_ssd *ssd, *other;
    int local = 0;
    OK(warpbell_ssd_open("soft:size=1m", NULL, &ssd));
    OK(warpbell_ssd_open("soft:size=1m", NULL, &other));
    THAT(ssd != other);
    OK(warpbell_ssd_identify(ssd, &info));
    THAT(info.namespaces == 1 && info.queues >= 1 && strlen(info.model) > 0 && strlen(info.serial) > 0);
    OK(warpbell_ssd_namespace(ssd, 0, &ns));
    THAT(ns.blocks == 2048 && ns.block_bytes == 512 && ns.nsid == 1 && ns.writable == 1);
    FAILS(warpbell_ssd_namespace(ssd, 1, &ns), WARPBELL_ERROR_INVALID, "namespace index 1");
    FAILS(warpbell_ssd_identify(ssd, NULL), WARPBELL_ERROR_INVALID, "warpbell_ssd_info: is NULL");
    OK(warpbell_ssd_close(ssd));
    FAILS(warpbell_ssd_close(ssd), WARPBELL_ERROR_HANDLE, "was closed before");
    FAILS(warpbell_ssd_identify(ssd, &info), WARPBELL_ERROR_HANDLE, "was closed before");
    FAILS(warpbell_ssd_close(NO_HANDLE(warpbell_ssd)), WARPBELL_ERROR_HANDLE, "NULL is no handle");
    FAILS(warpbell_ssd_close((warpbell_ssd*)(void*)&local), WARPBELL_ERROR_HANDLE,
          "is no handle of this library");
    FAILS(warpbell_queues_close((warpbell_queues*)(void*)other), WARPBELL_ERROR_HANDLE, "another kind: ssd");
    FAILS(warpbell_buffer_close(NO_HANDLE(warpbell_buffer)), WARPBELL_ERROR_HANDLE, "buffer: NULL");
    FAILS(warpbell_program_close(NO_HANDLE(warpbell_program)), WARPBELL_ERROR_HANDLE, "program: NULL");
    FAILS(warpbell_run_close(NO_HANDLE(warpbell_run)), WARPBELL_ERROR_HANDLE, "run: NULL");
    OK(warpbell_ssd_close(other));
}

static void blocks(void) {
    static unsigned char data[3 << 20], back[3 << 20];
    char path[200];
    warpbell_ssd* ssd;
    size_t i;
    for (i = 0; i < sizeof(data); ++i) {
        data[i] = (unsigned char)(i * 131 >> 3);
    }
    OK(warpbell_ssd_open("soft:size=4m", NULL, &ssd));
    OK(warpbell_ssd_write(ssd, 1, 7, data, sizeof(data)));
    OK(warpbell_ssd_flush(ssd, 0));
    OK(warpbell_ssd_read(ssd, 0, 7, back, sizeof(back)));
    THAT(memcmp(data, back, sizeof(data)) == 0);
    OK(warpbell_ssd_read(ssd, 0, 8, back, 512));
    THAT(memcmp(data + 512, back, 512) == 0);
    FAILS(warpbell_ssd_read(ssd, 0, 0, back, 100), WARPBELL_ERROR_INVALID, "bytes 100: must be a multiple");
    FAILS(warpbell_ssd_read(ssd, 0, 0, back, 0), WARPBELL_ERROR_INVALID, "bytes 0");
    FAILS(warpbell_ssd_read(ssd, 0, 8192, back, 512), WARPBELL_ERROR_INVALID, "has blocks 0 to 8191");
    FAILS(warpbell_ssd_read(ssd, 0, 8191, back, 1024), WARPBELL_ERROR_INVALID, "lba 8191 and 2 blocks");
    FAILS(warpbell_ssd_read(ssd, 0, UINT64_MAX, back, 512), WARPBELL_ERROR_INVALID,
          "lba 18446744073709551615");
    FAILS(warpbell_ssd_read(ssd, 2, 0, back, 512), WARPBELL_ERROR_INVALID, "namespace 2");
    FAILS(warpbell_ssd_read(ssd, 0, 0, NULL, 512), WARPBELL_ERROR_INVALID, "data: is NULL");
    FAILS(warpbell_ssd_write(ssd, 0, 0, NULL, 512), WARPBELL_ERROR_INVALID, "data: is NULL");
    OK(warpbell_ssd_data_path(ssd, path, sizeof(path)));
    THAT(strncmp(path, "rings host, data host", 21) == 0);
    FAILS(warpbell_ssd_data_path(ssd, path, strlen(path)), WARPBELL_ERROR_INVALID,
          "the text and its end take");
    OK(warpbell_ssd_close(ssd));
}

/* A file is written only if it was named. */
static void permission(const char* file) {
    const char* names[] = {NULL, NULL};
    warpbell_open_options chosen = WARPBELL_OPEN_OPTIONS_INIT;
    warpbell_namespace_info ns = WARPBELL_NAMESPACE_INFO_INIT;
    char device[4200];
    unsigned char block[512];
    warpbell_ssd* ssd;
    memset(block, 0x5a, sizeof(block));
    snprintf(device, sizeof(device), "soft:file=%s", file);
    OK(warpbell_ssd_open(device, NULL, &ssd));
    OK(warpbell_ssd_namespace(ssd, 0, &ns));
    THAT(ns.writable == 0);
    FAILS(warpbell_ssd_write(ssd, 0, 1, block, sizeof(block)), WARPBELL_ERROR_REFUSED, "allow_write");
    OK(warpbell_ssd_close(ssd));
    names[0] = file;
    chosen.allow_write = names;
    OK(warpbell_ssd_open(device, &chosen, &ssd));
    OK(warpbell_ssd_namespace(ssd, 0, &ns));
    THAT(ns.writable == 1);
    OK(warpbell_ssd_write(ssd, 0, 1, block, sizeof(block)));
    OK(warpbell_ssd_flush(ssd, 0));
    OK(warpbell_ssd_close(ssd));
}

static void attaching(warpbell_ssd* ssd) {
    warpbell_attach_options chosen = WARPBELL_ATTACH_OPTIONS_INIT;
    warpbell_queues* queues;
    warpbell_queue_ref ref;
    FAILS(warpbell_queues_attach(NULL, NULL, &queues), WARPBELL_ERROR_HANDLE, "ssd: NULL");
    chosen.target = "gpu";
    FAILS(warpbell_queues_attach(ssd, &chosen, &queues), WARPBELL_ERROR_INVALID, "target 'gpu'");
    chosen.target = NULL;
    chosen.sharing = 7;
    FAILS(warpbell_queues_attach(ssd, &chosen, &queues), WARPBELL_ERROR_INVALID, "sharing 7");
    chosen.sharing = WARPBELL_SHARING_EXCLUSIVE;
    chosen.warps = 2;
    FAILS(warpbell_queues_attach(ssd, &chosen, &queues), WARPBELL_ERROR_INVALID, "2");
    chosen.warps = 0;
    chosen.iodepth = 1 << 20;
    FAILS(warpbell_queues_attach(ssd, &chosen, &queues), WARPBELL_ERROR_INVALID, "iodepth 1048576");
    chosen.iodepth = 7;
    chosen.queues = 2;
    OK(warpbell_queues_attach(ssd, &chosen, &queues));
    OK(warpbell_queues_get_queue_ref(queues, 1, &ref));
    THAT(ref.abi_version == WARPBELL_ABI_VERSION && ref.size == sizeof(ref) && ref.sq_shift == 3);
    FAILS(warpbell_queues_get_queue_ref(queues, 2, &ref), WARPBELL_ERROR_INVALID,
          "queue 2: there are queues 0 to 1");
    FAILS(warpbell_queues_get_queue_ref(queues, 0, NULL), WARPBELL_ERROR_INVALID, "ref: is NULL");
    FAILS(warpbell_ssd_close(ssd), WARPBELL_ERROR_BUSY, "warpbell_queues_close");
    OK(warpbell_queues_close(queues));
    FAILS(warpbell_queues_get_queue_ref(queues, 0, &ref), WARPBELL_ERROR_HANDLE, "was closed before");
}

static void buffers(warpbell_ssd* ssd) {
    static unsigned char memory[4 * 4096];
    unsigned char* pages = memory + (4096 - (size_t)memory % 4096) % 4096;
    warpbell_queues* queues;
    warpbell_buffer *buffer, *part;
    warpbell_buffer_ref ref;
    void* host;
    size_t bytes;
    OK(warpbell_queues_attach(ssd, NULL, &queues));
    FAILS(warpbell_buffer_alloc(queues, 0, &buffer), WARPBELL_ERROR_INVALID, "bytes 0");
    FAILS(warpbell_buffer_alloc(queues, SIZE_MAX, &buffer), WARPBELL_ERROR_INVALID, "18446744073709551615");
    FAILS(warpbell_buffer_register(queues, NULL, 4096, &buffer), WARPBELL_ERROR_INVALID, "memory: is NULL");
    FAILS(warpbell_buffer_register(queues, pages + 8, 4096, &buffer), WARPBELL_ERROR_INVALID,
          "begin on a page");
    FAILS(warpbell_buffer_register(queues, pages, 100, &buffer), WARPBELL_ERROR_INVALID, "bytes 100");
    OK(warpbell_buffer_register(queues, pages, 2 * 4096, &buffer));
    OK(warpbell_buffer_register(queues, pages, 4096, &part));
    OK(warpbell_buffer_get_ref(buffer, &ref));
    THAT(ref.bytes == 2 * 4096 && ref.iova != 0 && ref.size == sizeof(ref));
    OK(warpbell_buffer_get_host(buffer, &host, &bytes));
    THAT(host == pages && bytes == 2 * 4096);
    OK(warpbell_buffer_close(part));
    FAILS(warpbell_buffer_get_ref(part, &ref), WARPBELL_ERROR_HANDLE, "was closed before");
    /* The others go with their queues. */
    OK(warpbell_queues_close(queues));
    FAILS(warpbell_buffer_get_ref(buffer, &ref), WARPBELL_ERROR_HANDLE, "was closed before");
    FAILS(warpbell_buffer_close(buffer), WARPBELL_ERROR_HANDLE, "was closed before");
}

/* Only where there is no CUDA driver. */
static void no_gpu(warpbell_ssd* ssd) {
    warpbell_attach_options chosen = WARPBELL_ATTACH_OPTIONS_INIT;
    warpbell_queues* queues;
    warpbell_program* program;
    chosen.target = "cuda:0";
    FAILS(warpbell_queues_attach(ssd, &chosen, &queues), WARPBELL_ERROR_MISSING, "cuda:0");
    FAILS(warpbell_program_compile("cuda:0", "a.cu", "", NULL, &program), WARPBELL_ERROR_MISSING, "cuda:0");
}

int main(int argc, char** argv) {
    warpbell_ssd* ssd;
    THAT(argc == 3);
    versions();
    names();
    options();
    handles();
    blocks();
    permission(argv[1]);
    OK(warpbell_ssd_open("soft:size=1m", NULL, &ssd));
    attaching(ssd);
    buffers(ssd);
    if (strcmp(argv[2], "no-driver") == 0) {
        no_gpu(ssd);
    }
    OK(warpbell_ssd_close(ssd));
    printf("%d checks\n", checks);
    return 0;
}
