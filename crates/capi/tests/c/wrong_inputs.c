/* Wrong inputs over the whole header: NULL, lengths, alignments, identifiers, sizes, versions, closed
 * handles, addresses that are not mapped. None may crash, under AddressSanitizer neither. */
#include "wrong_host_io.h"
#include <unistd.h>

static warpbell_error open_device(const char* name) {
    warpbell_ssd* ssd = (warpbell_ssd*)1;
    const warpbell_error error = warpbell_ssd_open(name, NULL, &ssd);
    if (ssd != NULL) {
        complain(__LINE__, name, "a handle in spite of a failure");
    }
    return error;
}

static void devices(void) {
    ROW(open_device(NULL), INVALID, "device", "NULL", "is");
    ROW(open_device(""), INVALID, "device", "''", "soft:");
    ROW(open_device("nvme0"), INVALID, "device", "'nvme0'", "soft:");
    ROW(open_device("\xff"), INVALID, "device", "UTF-8", "not");
    ROW(open_device("0000:41:00.9"), INVALID, "device", "'0000:41:00.9'", "PCI address");
    ROW(open_device("0000:41:20.0"), INVALID, "device", "'0000:41:20.0'", "PCI address");
    ROW(open_device("sn:"), INVALID, "device", "'sn:'", "sn:SERIAL");
    ROW(open_device("vfio-user:"), INVALID, "device", "'vfio-user:'", "vfio-user:SOCKET");
    ROW(open_device("vfio-user:/nowhere/at/all"), WARPBELL_ERROR_MISSING, "vfio-user", "/nowhere/at/all",
        "start a server first");
    ROW(open_device("soft:"), INVALID, "device", "'soft:'", "soft:size=BYTES");
    ROW(open_device("soft:file="), INVALID, "setting", "file=", "must be");
    ROW(open_device("soft:size="), INVALID, "setting", "size=", "must be");
    ROW(open_device("soft:size=0"), INVALID, "setting", "size=0", "must be");
    ROW(open_device("soft:size=banana"), INVALID, "setting", "size=banana", "must be");
    ROW(open_device("soft:size=-1m"), INVALID, "setting", "size=-1m", "must be");
    ROW(open_device("soft:size=99999999999999999999g"), INVALID, "setting", "99999999999999999999g",
        "must be");
    ROW(open_device("soft:size=1m,block=1000"), INVALID, "block", "1000", "512");
    ROW(open_device("soft:size=1m,queues=0"), INVALID, "queues", "0", "1");
    ROW(open_device("soft:size=1m,queues=65536"), INVALID, "queues", "65536", "65535");
    ROW(open_device("soft:size=1m,colour=red"), INVALID, "colour", "", "size");
    ROW(open_device("soft:size=1m,profile=abacus"), INVALID, "profile", "abacus", "must be");
    ROW(open_device("soft:size=1m,mdts=99"), INVALID, "mdts", "99", "0 to 20");
    ROW(open_device("soft:size=1m,stride=9"), INVALID, "stride", "9", "0 to 4");
    ROW(open_device("soft:size=1m,time=virtual"), INVALID, "time", "virtual", "simulations");
    ROW(warpbell_ssd_open("soft:size=1m", NULL, NULL), INVALID, "ssd", "NULL", "is");
}

static warpbell_error open_with(const warpbell_open_options* chosen) {
    warpbell_ssd* ssd;
    return warpbell_ssd_open("soft:size=1m", chosen, &ssd);
}

static void open_heads(void) {
    struct {
        warpbell_open_options known;
        uint32_t later[2];
    } longer = {WARPBELL_OPEN_OPTIONS_INIT, {0, 1}};
    warpbell_open_options chosen = WARPBELL_OPEN_OPTIONS_INIT;
    longer.known.size = sizeof(longer);
    ROW(open_with(&longer.known), INVALID, "warpbell_open_options", "byte", "knows only");
    chosen.api_version = 0;
    ROW(open_with(&chosen), INVALID, "warpbell_open_options", "api_version 0", "3 to 8");
    chosen.api_version = WARPBELL_API_VERSION + 1;
    ROW(open_with(&chosen), INVALID, "warpbell_open_options", "api_version 9", "3 to 8");
    chosen.api_version = WARPBELL_API_VERSION;
    chosen.size = 0;
    ROW(open_with(&chosen), INVALID, "warpbell_open_options", "size 0", "8 to 65536");
    chosen.size = 7;
    ROW(open_with(&chosen), INVALID, "warpbell_open_options", "size 7", "8 to 65536");
    chosen.size = UINT32_MAX;
    ROW(open_with(&chosen), INVALID, "warpbell_open_options", "size 4294967295", "8 to 65536");
}

static void open_places(void) {
    warpbell_open_options chosen = WARPBELL_OPEN_OPTIONS_INIT;
    chosen.queues = 65536;
    ROW(open_with(&chosen), INVALID, "queues", "65536", "65535");
    chosen.queues = 0;
    chosen.rings = "attic";
    ROW(open_with(&chosen), INVALID, "rings", "'attic'", "host");
    chosen.rings = "bar:0000:41:00.0/9";
    ROW(open_with(&chosen), INVALID, "rings", "41:00.0/9", "0 to 5");
    chosen.rings = "\xff";
    ROW(open_with(&chosen), INVALID, "rings", "UTF-8", "not");
    chosen.rings = NULL;
    chosen.data = "cmb";
    ROW(open_with(&chosen), INVALID, "data", "'cmb'", "submission rings only");
    chosen.data = "hbm";
    ROW(open_with(&chosen), INVALID, "data", "hbm", "cuda:N");
    chosen.data = NULL;
    chosen.rings = "sq=cmb,cq=hbm";
    ROW(open_with(&chosen), INVALID, "rings", "sq=cmb,cq=hbm", "cuda:N");
    chosen.rings = "sq=host,cq=cmb";
    ROW(open_with(&chosen), INVALID, "rings", "cq=cmb", "submission rings only");
    chosen.rings = NULL;
    chosen.gpu = "cuda:x";
    ROW(open_with(&chosen), INVALID, "target", "'cuda:x'", "cuda:N");
    chosen.data = NULL;
    chosen.gpu = NULL;
    chosen.doorbells = "loud";
    ROW(open_with(&chosen), INVALID, "doorbells", "'loud'", "auto, mapped or forwarded");
    /* What this SSD cannot have: an error, never another place. */
    chosen.doorbells = "forwarded";
    ROW(open_with(&chosen), INVALID, "doorbells forwarded", "soft:size=1m", "nothing forwards them");
    chosen.doorbells = NULL;
    chosen.rings = "cmb";
    ROW(open_with(&chosen), INVALID, "rings cmb", "soft:size=1m does not offer", "soft:size=1m,cmb=1m does");
    chosen.rings = NULL;
}

static void open_lists(void) {
    warpbell_open_options chosen = WARPBELL_OPEN_OPTIONS_INIT;
    warpbell_recovery_policy policy = WARPBELL_RECOVERY_POLICY_INIT;
    static const char* many[5000];
    static const char* not_text[] = {"\xc0", NULL};
    size_t i;
    for (i = 0; i < 5000; ++i) {
        many[i] = "x";
    }
    chosen.allow_write = many;
    ROW(open_with(&chosen), INVALID, "allow_write", "4096", "end with NULL");
    chosen.allow_write = not_text;
    ROW(open_with(&chosen), INVALID, "allow_write", "UTF-8", "not");
    chosen.allow_write = NULL;
    chosen.recovery = &policy;
    policy.api_version = 99;
    ROW(open_with(&chosen), INVALID, "warpbell_recovery_policy", "api_version 99", "3 to 8");
    policy.api_version = WARPBELL_API_VERSION;
    policy.size = 70000;
    ROW(open_with(&chosen), INVALID, "warpbell_recovery_policy", "size 70000", "8 to 65536");
}

static void closed_and_foreign(warpbell_ssd* ssd) {
    warpbell_ssd_info info = WARPBELL_SSD_INFO_INIT;
    int local = 0;
    ROW(warpbell_ssd_close(NULL), HANDLE, "ssd", "NULL", "no handle");
    ROW(warpbell_ssd_close(closed_ssd), HANDLE, "ssd", "was closed", "before");
    ROW(warpbell_ssd_close((warpbell_ssd*)(void*)&local), HANDLE, "ssd", "0x", "no handle of this library");
    ROW(warpbell_ssd_close((warpbell_ssd*)UINTPTR_MAX), HANDLE, "ssd", "0x", "no handle of this library");
    ROW(warpbell_queues_close((warpbell_queues*)(void*)ssd), HANDLE, "queues", "ssd", "another kind");
    ROW(warpbell_buffer_close((warpbell_buffer*)(void*)ssd), HANDLE, "buffer", "ssd", "another kind");
    ROW(warpbell_lease_close((warpbell_lease*)(void*)ssd), HANDLE, "lease", "ssd", "another kind");
    ROW(warpbell_program_close((warpbell_program*)(void*)ssd), HANDLE, "program", "ssd", "another kind");
    ROW(warpbell_run_close((warpbell_run*)(void*)ssd), HANDLE, "run", "ssd", "another kind");
    ROW(warpbell_run_wait(NULL, 0), HANDLE, "run", "NULL", "no handle");
    ROW(warpbell_queues_stop(NULL), HANDLE, "queues", "NULL", "no handle");
    ROW(warpbell_ssd_identify(closed_ssd, &info), HANDLE, "ssd", "was closed", "before");
    ROW(warpbell_ssd_flush(closed_ssd, 0), HANDLE, "ssd", "was closed", "before");
    ROW(warpbell_queues_attach(closed_ssd, NULL, &(warpbell_queues*){NULL}), HANDLE, "ssd", "was closed",
        "before");
}

static void reading(warpbell_ssd* ssd) {
    static unsigned char block[1024];
    warpbell_ssd_info info = WARPBELL_SSD_INFO_INIT;
    warpbell_namespace_info ns = WARPBELL_NAMESPACE_INFO_INIT;
    warpbell_event event = WARPBELL_EVENT_INIT;
    warpbell_recovery_counters counters = WARPBELL_RECOVERY_COUNTERS_INIT;
    char text[4];
    ROW(warpbell_ssd_identify(ssd, NULL), INVALID, "warpbell_ssd_info", "NULL", "is");
    info.size = 3;
    ROW(warpbell_ssd_identify(ssd, &info), INVALID, "warpbell_ssd_info", "size 3", "8 to 65536");
    ROW(warpbell_ssd_namespace(ssd, 7, &ns), INVALID, "namespace index", "7", "1 usable");
    ns.api_version = 1;
    ROW(warpbell_ssd_namespace(ssd, 0, &ns), INVALID, "warpbell_namespace_info", "api_version 1", "3 to 8");
    ROW(warpbell_ssd_data_path(ssd, NULL, 100), INVALID, "text", "NULL", "is");
    ROW(warpbell_ssd_data_path(ssd, text, sizeof(text)), INVALID, "bytes", "4", "take");
    ROW(warpbell_ssd_data_path(ssd, text, SIZE_MAX), INVALID, "text", "18446744073709551615", "at most");
    ROW(warpbell_ssd_read(ssd, 0, 0, NULL, 512), INVALID, "data", "NULL", "is");
    ROW(warpbell_ssd_read(ssd, 0, 0, block, 0), INVALID, "bytes", "0", "512 bytes");
    ROW(warpbell_ssd_read(ssd, 0, 0, block, 513), INVALID, "bytes", "513", "512 bytes");
    ROW(warpbell_ssd_read(ssd, 0, 0, block, SIZE_MAX), INVALID, "data", "18446744073709551615", "at most");
    ROW(warpbell_ssd_read(ssd, 0, 2048, block, 512), INVALID, "lba", "2048", "0 to 2047");
    ROW(warpbell_ssd_read(ssd, 0, 2047, block, 1024), INVALID, "lba", "2047 and 2", "0 to 2047");
    ROW(warpbell_ssd_read(ssd, 0, UINT64_MAX, block, 1024), INVALID, "lba", "18446744073709551615",
        "0 to 2047");
    ROW(warpbell_ssd_read(ssd, 2, 0, block, 512), INVALID, "namespace", "2", "[1]");
    ROW(warpbell_ssd_read(ssd, UINT32_MAX, 0, block, 512), INVALID, "namespace", "4294967295", "[1]");
    ROW(warpbell_ssd_write(ssd, 0, 0, NULL, 512), INVALID, "data", "NULL", "is");
    ROW(warpbell_ssd_write(ssd, 0, 2048, block, 512), INVALID, "lba", "2048", "0 to 2047");
    ROW(warpbell_ssd_write(ssd, 0, 0, block, 100), INVALID, "bytes", "100", "512 bytes");
    ROW(warpbell_ssd_flush(ssd, 9), INVALID, "namespace", "9", "[1]");
    ROW(warpbell_ssd_next_event(ssd, 0, NULL), INVALID, "warpbell_event", "NULL", "is");
    event.size = 4;
    ROW(warpbell_ssd_next_event(ssd, 0, &event), INVALID, "warpbell_event", "size 4", "8 to 65536");
    event.size = sizeof(event);
    ROW(warpbell_ssd_next_event(ssd, 1000, &event), WARPBELL_ERROR_TIMEOUT, "event", "1", "within");
    counters.api_version = 77;
    ROW(warpbell_ssd_recovery_counters(ssd, &counters), INVALID, "warpbell_recovery_counters",
        "api_version 77", "3 to 8");
}

static warpbell_error attach_with(warpbell_ssd* ssd, const warpbell_attach_options* chosen) {
    warpbell_queues* queues;
    return warpbell_queues_attach(ssd, chosen, &queues);
}

static void attaching(warpbell_ssd* ssd) {
    const warpbell_attach_options none = WARPBELL_ATTACH_OPTIONS_INIT;
    warpbell_attach_options chosen = none;
    ROW(warpbell_queues_attach(ssd, NULL, NULL), INVALID, "queues", "NULL", "is");
    chosen.target = "gpu";
    ROW(attach_with(ssd, &chosen), INVALID, "target", "'gpu'", "cuda:N");
    chosen.target = "cuda:4294967296";
    ROW(attach_with(ssd, &chosen), INVALID, "target", "4294967296", "cuda:N");
    chosen = none, chosen.sharing = 7;
    ROW(attach_with(ssd, &chosen), INVALID, "sharing", "7", "must be");
    chosen = none, chosen.nsid = 2;
    ROW(attach_with(ssd, &chosen), INVALID, "namespace", "2", "[1]");
    chosen = none, chosen.queues = 65536;
    ROW(attach_with(ssd, &chosen), INVALID, "queues", "65536", "granted 64");
    chosen = none, chosen.warps = 2;
    ROW(attach_with(ssd, &chosen), INVALID, "warps", "2", "each warp needs");
    chosen = none, chosen.iodepth = 65536;
    ROW(attach_with(ssd, &chosen), INVALID, "iodepth", "65536", "65535");
    chosen = none, chosen.commands_per_lane = 1u << 20;
    ROW(attach_with(ssd, &chosen), INVALID, "in flight per lane", "1048576", "32");
    chosen = none, chosen.replacement_queues = 4097;
    ROW(attach_with(ssd, &chosen), INVALID, "replacement_queues", "4097", "4096");
    chosen = none, chosen.sharing = WARPBELL_SHARING_SHARED, chosen.warps = UINT32_MAX;
    ROW(attach_with(ssd, &chosen), INVALID, "warps", "4294967295", "at most 2048");
    chosen = none, chosen.size = 1;
    ROW(attach_with(ssd, &chosen), INVALID, "warpbell_attach_options", "size 1", "8 to 65536");
}

static void references(warpbell_queues* queues) {
    warpbell_queue_ref ref;
    ROW(warpbell_queues_get_namespace_ref(queues, NULL), INVALID, "ref", "NULL", "is");
    ROW(warpbell_queues_get_queue_ref(queues, 1, &ref), INVALID, "queue", "1", "0 to 0");
    ROW(warpbell_queues_get_queue_ref(queues, 0, NULL), INVALID, "ref", "NULL", "is");
    ROW(warpbell_queues_get_mailbox(queues, NULL), INVALID, "address", "NULL", "is");
}

static warpbell_error register_at(warpbell_queues* queues, void* memory, size_t bytes) {
    warpbell_buffer* buffer;
    return warpbell_buffer_register(queues, memory, bytes, &buffer);
}

static unsigned char* map(void* wish, size_t pages, int protection) {
    void* mapped = mmap(wish, pages * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return (unsigned char*)mapped;
}

static void memory(warpbell_queues* queues) {
    /* Where no other thread maps anything into the hole. */
    void* far = (void*)(uintptr_t)UINT64_C(0x200000000000);
    unsigned char* pages = map(far, 4, PROT_READ | PROT_WRITE);
    unsigned char* read_only = map(NULL, 2, PROT_READ);
    unsigned char* nothing = map(NULL, 2, PROT_NONE);
    FILE* file = tmpfile();
    unsigned char* short_file;
    if (file == NULL || ftruncate(fileno(file), PAGE) != 0) {
        perror("tmpfile");
        exit(1);
    }
    short_file = (unsigned char*)mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    munmap(pages + 2 * PAGE, PAGE);
    ROW(register_at(queues, NULL, PAGE), INVALID, "memory", "NULL", "is");
    ROW(register_at(queues, pages + 1, PAGE), INVALID, "memory", "0x", "page of 4096");
    ROW(register_at(queues, pages, 0), INVALID, "bytes", "0", "pages of 4096");
    ROW(register_at(queues, pages, PAGE + 1), INVALID, "bytes", "4097", "pages of 4096");
    ROW(register_at(queues, pages, SIZE_MAX & ~(size_t)4095), INVALID, "bytes", "18446744073709547520",
        "pages of 4096");
    ROW(register_at(queues, pages, (size_t)PTRDIFF_MAX & ~(size_t)4095), INVALID, "memory", "0x", "mapped");
    ROW(register_at(queues, (void*)(UINTPTR_MAX & ~(uintptr_t)4095), PAGE), INVALID, "memory",
        "0xfffffffffffff000", "leave the address space");
    ROW(register_at(queues, pages + 2 * PAGE, PAGE), INVALID, "memory", "4096 bytes", "is not mapped");
    ROW(register_at(queues, pages, 4 * PAGE), INVALID, "memory", "16384 bytes", "is not mapped");
    ROW(register_at(queues, read_only, 2 * PAGE), INVALID, "memory", "8192 bytes", "read-only");
    ROW(register_at(queues, nothing, PAGE), INVALID, "memory", "4096 bytes", "cannot be read");
    ROW(register_at(queues, short_file, 4 * PAGE), INVALID, "memory", "16384 bytes", "end of its file");
    ROW(warpbell_buffer_register(queues, pages, PAGE, NULL), INVALID, "buffer", "NULL", "is");
    ROW(warpbell_buffer_register_device(queues, 65536, 65536, &(warpbell_buffer*){NULL}), INVALID, "queues",
        "cpu", "no memory of its own");
    ROW(warpbell_buffer_register_device(queues, 65536, 65536, NULL), INVALID, "buffer", "NULL", "is");
    ROW(warpbell_buffer_alloc(queues, 0, &(warpbell_buffer*){NULL}), INVALID, "bytes", "0", "at least 1");
    ROW(warpbell_buffer_alloc(queues, SIZE_MAX, &(warpbell_buffer*){NULL}), INVALID, "memory length",
        "18446744073709551615", "from 1 to");
    ROW(warpbell_buffer_alloc(queues, 4096, NULL), INVALID, "buffer", "NULL", "is");
    munmap(short_file, 4 * PAGE);
    fclose(file);
}

static void buffers(warpbell_queues* queues) {
    warpbell_buffer *buffer, *closed;
    warpbell_buffer_ref ref;
    void* host;
    size_t bytes;
    NEED(warpbell_buffer_alloc(queues, PAGE, &closed));
    NEED(warpbell_buffer_alloc(queues, PAGE, &buffer));
    NEED(warpbell_buffer_close(closed));
    ROW(warpbell_buffer_get_ref(closed, &ref), HANDLE, "buffer", "was closed", "before");
    ROW(warpbell_buffer_get_ref(buffer, NULL), INVALID, "ref", "NULL", "is");
    ROW(warpbell_buffer_get_host(buffer, NULL, &bytes), INVALID, "memory", "NULL", "is");
    ROW(warpbell_buffer_get_host(buffer, &host, NULL), INVALID, "bytes", "NULL", "is");
    NEED(warpbell_buffer_close(buffer));
}

static void leases(warpbell_queues* queues) {
    const warpbell_lease_options all = WARPBELL_LEASE_OPTIONS_INIT;
    warpbell_lease_options chosen = all;
    warpbell_lease *lease, *none;
    warpbell_buffer* closed;
    NEED(warpbell_buffer_alloc(queues, PAGE, &closed));
    NEED(warpbell_buffer_close(closed));
    ROW(warpbell_queues_lease(queues, NULL, NULL), INVALID, "lease", "NULL", "is");
    chosen.first_lba = 2040, chosen.blocks = 9;
    ROW(warpbell_queues_lease(queues, &chosen, &none), INVALID, "LBAs", "2040..2049", "0..2048");
    chosen.first_lba = UINT64_MAX, chosen.blocks = UINT64_MAX;
    ROW(warpbell_queues_lease(queues, &chosen, &none), INVALID, "blocks", "18446744073709551615",
        "beyond the last");
    chosen = all, chosen.first_lba = 1;
    ROW(warpbell_queues_lease(queues, &chosen, &none), INVALID, "first_lba", "1", "blocks");
    chosen = all, chosen.first_queue = 1, chosen.queues = 1;
    ROW(warpbell_queues_lease(queues, &chosen, &none), INVALID, "queues", "1..2", "0..1");
    chosen = all, chosen.first_queue = UINT32_MAX, chosen.queues = UINT32_MAX;
    ROW(warpbell_queues_lease(queues, &chosen, &none), INVALID, "queues", "4294967295",
        "must begin before it ends");
    chosen = all, chosen.buffer = closed;
    ROW(warpbell_queues_lease(queues, &chosen, &none), HANDLE, "buffer", "was closed", "before");
    chosen = all, chosen.pad0 = 1;
    ROW(warpbell_queues_lease(queues, &chosen, &none), INVALID, "pad0", "1", "0");
    NEED(warpbell_queues_lease(queues, NULL, &lease));
    ROW(warpbell_lease_get_namespace_ref(lease, NULL), INVALID, "ref", "NULL", "is");
    NEED(warpbell_lease_close(lease));
    ROW(warpbell_lease_narrow(lease, NULL, &none), HANDLE, "lease", "was closed", "before");
}

static const char* const SOURCE = "#include <warpbell/warpbell.cuh>\n"
                                  "struct nothing_args { uint64_t one, two; };\n"
                                  "WARPBELL_KERNEL(nothing, nothing_args) {}\n";

static warpbell_error compile(const char* target, const char* name, const char* source,
                              const warpbell_compile_options* chosen) {
    warpbell_program* program;
    return warpbell_program_compile(target, name, source, chosen, &program);
}

static void compiling(void) {
    static const char* const no_name[] = {"=1", NULL};
    static const char* const spaces[] = {"A B", NULL};
    warpbell_compile_options chosen = WARPBELL_COMPILE_OPTIONS_INIT;
    ROW(compile("cpu", NULL, SOURCE, NULL), INVALID, "name", "NULL", "is");
    ROW(compile("cpu", "a.cu", NULL, NULL), INVALID, "source", "NULL", "is");
    ROW(compile("tpu", "a.cu", SOURCE, NULL), INVALID, "target", "'tpu'", "cuda:N");
    ROW(compile("cpu", "a.cu", "\xff", NULL), INVALID, "source", "UTF-8", "not");
    ROW(compile("cpu", "none.cu", "int x;", NULL), INVALID, "none.cu", "no kernel", "WARPBELL_KERNEL");
    ROW(warpbell_program_compile("cpu", "a.cu", SOURCE, NULL, NULL), INVALID, "program", "NULL", "is");
    ROW(warpbell_program_compile_file("cpu", NULL, NULL, &(warpbell_program*){NULL}), INVALID, "path", "NULL",
        "is");
    ROW(warpbell_program_load("cpu", NULL, &(warpbell_program*){NULL}), INVALID, "path", "NULL", "is");
    ROW(warpbell_program_load("ptx", "/nowhere/a.ptx", &(warpbell_program*){NULL}), INVALID, "image",
        "/nowhere/a.ptx", "No such file");
    chosen.definitions = no_name;
    ROW(compile("cpu", "a.cu", SOURCE, &chosen), INVALID, "definition", "'=1'", "NAME");
    chosen.definitions = spaces;
    ROW(compile("cpu", "a.cu", SOURCE, &chosen), INVALID, "definition", "'A B'", "NAME");
    chosen.definitions = NULL, chosen.size = 2;
    ROW(compile("cpu", "a.cu", SOURCE, &chosen), INVALID, "warpbell_compile_options", "size 2", "8 to 65536");
    chosen.size = sizeof(chosen), chosen.cache = "/dev/null/cache";
    ROW(compile("cpu", "a.cu", SOURCE, &chosen), WARPBELL_ERROR_FAILED, "cache folder", "/dev/null/cache",
        "may write to");
}

static void launching(warpbell_queues* queues) {
    const warpbell_launch_options small = WARPBELL_LAUNCH_OPTIONS_INIT;
    warpbell_launch_options shape = small;
    uint64_t args[2] = {0, 0};
    warpbell_program* program;
    warpbell_run* run;
    NEED(warpbell_program_compile("cpu", "nothing.cu", SOURCE, NULL, &program));
#define LAUNCH(kernel, memory, bytes) warpbell_launch(program, kernel, queues, memory, bytes, &shape, &run)
    ROW(LAUNCH(NULL, args, 16), INVALID, "kernel", "NULL", "is");
    ROW(LAUNCH("", args, 16), INVALID, "kernel", "''", "nothing");
    ROW(LAUNCH("other", args, 16), INVALID, "kernel", "'other'", "nothing");
    ROW(LAUNCH("nothing", NULL, 16), INVALID, "args", "NULL", "is");
    ROW(LAUNCH("nothing", args, 8), INVALID, "kernel nothing", "8 bytes", "takes 16");
    ROW(LAUNCH("nothing", args, SIZE_MAX), INVALID, "args", "18446744073709551615", "at most");
    shape.block = 257;
    ROW(LAUNCH("nothing", args, 16), INVALID, "block", "257", "256");
    shape = small, shape.grid = UINT32_MAX;
    ROW(LAUNCH("nothing", args, 16), INVALID, "grid", "4294967295", "2147483647");
    shape = small, shape.shared_bytes = UINT32_MAX;
    ROW(LAUNCH("nothing", args, 16), INVALID, "shared_bytes", "4294967295", "232448");
    shape = small, shape.cpu_threads = UINT32_MAX;
    ROW(LAUNCH("nothing", args, 16), INVALID, "cpu_threads", "4294967295", "1024");
    shape = small, shape.api_version = 2;
    ROW(LAUNCH("nothing", args, 16), INVALID, "warpbell_launch_options", "api_version 2", "3 to 8");
    shape = small;
    ROW(warpbell_launch(program, "nothing", queues, args, 16, &shape, NULL), INVALID, "run", "NULL", "is");
    NEED(warpbell_program_close(program));
    ROW(LAUNCH("nothing", args, 16), HANDLE, "program", "was closed", "before");
#undef LAUNCH
}

int main(void) {
    warpbell_ssd* ssd;
    warpbell_queues* queues;
    NEED(warpbell_ssd_open("soft:size=1m", NULL, &closed_ssd));
    NEED(warpbell_ssd_close(closed_ssd));
    devices();
    open_heads();
    open_places();
    open_lists();
    NEED(warpbell_ssd_open("soft:size=1m", NULL, &ssd));
    closed_and_foreign(ssd);
    reading(ssd);
    io_buffers(ssd);
    io_queues(ssd);
    io_requests(ssd);
    attaching(ssd);
    NEED(warpbell_queues_attach(ssd, NULL, &queues));
    references(queues);
    memory(queues);
    buffers(queues);
    leases(queues);
    compiling();
    launching(queues);
    ROW(warpbell_ssd_close(ssd), WARPBELL_ERROR_BUSY, "ssd", "1", "warpbell_queues_close");
    NEED(warpbell_queues_close(queues));
    NEED(warpbell_ssd_close(ssd));
    printf("%d wrong inputs, %d answered wrongly\n", rows, failures);
    return failures == 0 ? 0 : 1;
}
