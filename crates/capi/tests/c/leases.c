/* Leases, where rings and data lie, and what is heard of an SSD. */
#include "expect.h"
#include <warpbell/host_io.h>
#include <warpbell/volume.h>

static void places(void) {
    warpbell_open_options chosen = WARPBELL_OPEN_OPTIONS_INIT;
    char path[200];
    warpbell_ssd* ssd;
    chosen.rings = "cmb";
    OK(warpbell_ssd_open("soft:size=1m,cmb=64k", &chosen, &ssd));
    OK(warpbell_ssd_data_path(ssd, path, sizeof(path)));
    THAT(strncmp(path, "rings cmb (SQ), host (CQ), data host", 36) == 0);
    OK(warpbell_ssd_close(ssd));
    chosen.rings = "attic";
    FAILS(warpbell_ssd_open("soft:size=1m", &chosen, &ssd), WARPBELL_ERROR_INVALID, "rings 'attic'");
    chosen.rings = "host";
    chosen.data = "cmb";
    FAILS(warpbell_ssd_open("soft:size=1m", &chosen, &ssd), WARPBELL_ERROR_INVALID, "data 'cmb'");
    chosen.data = "hbm";
    FAILS(warpbell_ssd_open("soft:size=1m", &chosen, &ssd), WARPBELL_ERROR_INVALID, "of which GPU?");
    chosen.data = "bar:0000:ff:1f.7/5";
    THAT(warpbell_ssd_open("soft:size=1m", &chosen, &ssd) != WARPBELL_OK);
    THAT(ssd == NULL);
}

static void news(void) {
    warpbell_open_options chosen = WARPBELL_OPEN_OPTIONS_INIT;
    warpbell_recovery_policy policy = WARPBELL_RECOVERY_POLICY_INIT;
    warpbell_recovery_counters counters = WARPBELL_RECOVERY_COUNTERS_INIT;
    warpbell_event event = WARPBELL_EVENT_INIT;
    warpbell_ssd* ssd;
    policy.settle_ns = 1000000;
    policy.resets = WARPBELL_NONE;
    chosen.recovery = &policy;
    OK(warpbell_ssd_open("soft:size=1m", &chosen, &ssd));
    OK(warpbell_ssd_recovery_counters(ssd, &counters));
    THAT(counters.alarms == 0 && counters.resets == 0 && counters.size == sizeof(counters));
    FAILS(warpbell_ssd_next_event(ssd, 1000, &event), WARPBELL_ERROR_TIMEOUT, "no event within 1");
    FAILS(warpbell_ssd_recovery_counters(ssd, NULL), WARPBELL_ERROR_INVALID, "is NULL");
    OK(warpbell_ssd_close(ssd));
    FAILS(warpbell_ssd_next_event(ssd, 0, &event), WARPBELL_ERROR_HANDLE, "was closed before");
    policy.api_version = 1;
    FAILS(warpbell_ssd_open("soft:size=1m", &chosen, &ssd), WARPBELL_ERROR_INVALID,
          "warpbell_recovery_policy: api_version 1");
}

static void leases(warpbell_ssd* ssd) {
    warpbell_attach_options wanted = WARPBELL_ATTACH_OPTIONS_INIT;
    warpbell_lease_options chosen = WARPBELL_LEASE_OPTIONS_INIT;
    warpbell_namespace_ref whole, part;
    warpbell_buffer_ref memory;
    warpbell_queues* queues;
    warpbell_buffer* buffer;
    warpbell_lease *lease, *narrow;
    wanted.queues = 3;
    wanted.replacement_queues = WARPBELL_NONE;
    OK(warpbell_queues_attach(ssd, &wanted, &queues));
    OK(warpbell_queues_get_namespace_ref(queues, &whole));
    OK(warpbell_buffer_alloc(queues, 8192, &buffer));
    OK(warpbell_buffer_get_ref(buffer, &memory));

    OK(warpbell_queues_lease(queues, NULL, &lease));
    OK(warpbell_lease_get_namespace_ref(lease, &part));
    THAT(part.lease_first == 0 && part.lease_end == 2048 && part.queue_count == 3);
    OK(warpbell_lease_close(lease));

    chosen.first_lba = 64;
    chosen.blocks = 64;
    chosen.read_only = 1;
    chosen.first_queue = 1;
    chosen.queues = 2;
    chosen.buffer = buffer;
    OK(warpbell_queues_lease(queues, &chosen, &lease));
    OK(warpbell_lease_get_namespace_ref(lease, &part));
    THAT(part.lease_first == 64 && part.lease_end == 128 && (part.flags & WARPBELL_NAMESPACE_READ_ONLY));
    THAT(part.lease_iova == memory.iova && part.lease_iova_end == memory.iova + 8192);
    THAT(part.queue_count == 2 && part.queues == whole.queues + sizeof(warpbell_queue_ref));
    FAILS(warpbell_buffer_close(buffer), WARPBELL_ERROR_BUSY, "warpbell_lease_close");

    chosen = (warpbell_lease_options)WARPBELL_LEASE_OPTIONS_INIT;
    chosen.first_lba = 100;
    chosen.blocks = 28;
    OK(warpbell_lease_narrow(lease, &chosen, &narrow));
    OK(warpbell_lease_get_namespace_ref(narrow, &part));
    THAT(part.lease_first == 100 && part.lease_end == 128 && (part.flags & WARPBELL_NAMESPACE_READ_ONLY));
    chosen.blocks = 29;
    FAILS(warpbell_lease_narrow(lease, &chosen, &narrow), WARPBELL_ERROR_INVALID,
          "lease of LBAs 100..129: must lie in 64..128");
    THAT(narrow == NULL);
    chosen.blocks = 0;
    FAILS(warpbell_lease_narrow(lease, &chosen, &narrow), WARPBELL_ERROR_INVALID,
          "first_lba 100: with blocks 0");
    chosen.blocks = UINT64_MAX;
    FAILS(warpbell_lease_narrow(lease, &chosen, &narrow), WARPBELL_ERROR_INVALID, "beyond the last number");
    chosen.first_lba = chosen.blocks = 0;
    chosen.first_queue = UINT32_MAX;
    chosen.queues = UINT32_MAX;
    FAILS(warpbell_lease_narrow(lease, &chosen, &narrow), WARPBELL_ERROR_INVALID, "lease of queues");
    chosen.first_queue = 0;
    chosen.queues = 1;
    FAILS(warpbell_lease_narrow(lease, &chosen, &narrow), WARPBELL_ERROR_INVALID,
          "queues 0..1: must lie in 1..3");

    OK(warpbell_lease_close(lease));
    FAILS(warpbell_lease_close(lease), WARPBELL_ERROR_HANDLE, "was closed before");
    /* The narrower one still names the buffer. It goes with the queues, and the buffer too. */
    FAILS(warpbell_buffer_close(buffer), WARPBELL_ERROR_BUSY, "1 open");
    FAILS(warpbell_queues_lease((warpbell_queues*)(void*)buffer, NULL, &lease), WARPBELL_ERROR_HANDLE,
          "another kind: buffer");
    OK(warpbell_queues_close(queues));
    FAILS(warpbell_buffer_close(buffer), WARPBELL_ERROR_HANDLE, "was closed before");
}

/* A request that is not answered, on a queue that is not deleted then, and one that is: the first of them
 * keeps its memory mapped, and does not keep anything open. */
static void lost_request(warpbell_ssd* ssd) {
    static char memory[3 * 512];
    warpbell_io_queue_options chosen = WARPBELL_IO_QUEUE_OPTIONS_INIT;
    warpbell_io_request asked[2] = {{WARPBELL_IO_READ, 0, 8, 512, NULL, 1},
                                    {WARPBELL_IO_READ, 0, 9, 512, NULL, 2}};
    warpbell_io_completion completion;
    warpbell_io_buffer *lost, *good;
    warpbell_io_queue* queue;
    uint32_t count;
    void* other;
    chosen.timeout_ns = 200000000;
    OK(warpbell_io_queue_create(ssd, &chosen, &queue));
    OK(warpbell_io_buffer_register(ssd, memory, sizeof(memory), &lost));
    OK(warpbell_io_buffer_alloc(ssd, 512, &other, &good));
    asked[0].data = memory, asked[1].data = other;
    OK(warpbell_io_submit(queue, &asked[0], 1, &count));
    OK(warpbell_io_poll(queue, 1, 1, UINT64_MAX, &completion, &count));
    THAT(count == 1 && completion.tag == 1 && completion.bytes == 0);
    THAT(strstr(warpbell_status_text(completion.status), "deadline") != NULL);
    OK(warpbell_io_submit(queue, &asked[1], 1, &count));
    OK(warpbell_io_poll(queue, 1, 1, UINT64_MAX, &completion, &count));
    THAT(count == 1 && completion.tag == 2 && completion.status == 0);
    OK(warpbell_io_buffer_close(good));
    FAILS(warpbell_io_buffer_close(lost), WARPBELL_ERROR_IN_USE, "the queue of 1 requests over it");
    FAILS(warpbell_io_buffer_close(lost), WARPBELL_ERROR_HANDLE, "was closed before");
    FAILS(warpbell_io_queue_close(queue), WARPBELL_ERROR_FAILED, "cannot delete the submission queue");
    FAILS(warpbell_io_queue_close(queue), WARPBELL_ERROR_HANDLE, "was closed before");
}

/* The same over a volume. */
static void lost_part(warpbell_queues* queues) {
    static char memory[8192];
    warpbell_volume_options shape = WARPBELL_VOLUME_OPTIONS_INIT;
    warpbell_volume_io_options chosen = WARPBELL_VOLUME_IO_OPTIONS_INIT;
    warpbell_volume_io_end end = WARPBELL_VOLUME_IO_END_INIT;
    warpbell_volume_buffer* buffer;
    warpbell_volume_io* io;
    warpbell_volume* volume;
    uint64_t request;
    chosen.timeout_ns = 200000000;
    OK(warpbell_volume_create(&queues, 1, &shape, &volume));
    OK(warpbell_volume_io_open(volume, &chosen, &io));
    OK(warpbell_volume_buffer_register(volume, memory, sizeof(memory), &buffer));
    OK(warpbell_volume_io_read(io, buffer, 0, 0, 16, &request));
    FAILS(warpbell_volume_buffer_close(buffer), WARPBELL_ERROR_BUSY,
          "1 parts of requests over it have not ended");
    OK(warpbell_volume_io_next(io, UINT64_MAX, &end));
    THAT(end.error == WARPBELL_ERROR_COMMAND && strstr(end.text, "no completion within 200ms") != NULL);
    FAILS(warpbell_volume_buffer_close(buffer), WARPBELL_ERROR_IN_USE,
          "stays mapped until the SSD is closed");
    FAILS(warpbell_volume_buffer_close(buffer), WARPBELL_ERROR_HANDLE, "was closed before");
    OK(warpbell_volume_io_close(io));
    OK(warpbell_volume_close(volume));
}

/* A controller that does not delete queues may still write to their memory. */
static void undeleted(const char* plan) {
    char device[4200];
    warpbell_ssd* ssd;
    warpbell_queues* queues;
    snprintf(device, sizeof(device), "soft:size=1m,faults=%s", plan);
    OK(warpbell_ssd_open(device, NULL, &ssd));
    OK(warpbell_queues_attach(ssd, NULL, &queues));
    lost_part(queues);
    FAILS(warpbell_queues_close(queues), WARPBELL_ERROR_IN_USE, "cannot delete the submission queue of");
    FAILS(warpbell_queues_close(queues), WARPBELL_ERROR_HANDLE, "was closed before");
    lost_request(ssd);
    OK(warpbell_ssd_close(ssd));
}

int main(int argc, char** argv) {
    warpbell_ssd* ssd;
    THAT(argc == 2);
    undeleted(argv[1]);
    places();
    news();
    OK(warpbell_ssd_open("soft:size=1m", NULL, &ssd));
    leases(ssd);
    OK(warpbell_ssd_close(ssd));
    printf("%d checks\n", checks);
    return 0;
}
