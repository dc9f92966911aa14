// report.cpp - what wb_simt_error says.
#include "executor.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace [[gnu::visibility("hidden")]] simt {

namespace {

// "0-3,7" for 0x8f.
void report_lanes(Worker& worker, uint32_t lanes) {
    const char* comma = "";
    for (uint32_t i = 0; i < warp_lanes; ++i) {
        if (!(lanes >> i & 1))
            continue;
        uint32_t last = i;
        while (last + 1 < warp_lanes && (lanes >> (last + 1) & 1))
            ++last;
        if (last > i)
            report(worker, "%s%u-%u", comma, i, last);
        else
            report(worker, "%s%u", comma, i);
        comma = ",";
        i = last;
    }
}

void report_warp(Worker& worker, const Warp& warp) {
    const Block& block = *warp.block;
    report(worker, "\nblock %u warp %u: live %08x, ready %08x", block.index.x,
           static_cast<uint32_t>(&warp - block.warps), warp.live, warp.ready);
    for (uint32_t open = warp.open; open; open &= open - 1) {
        const Rendezvous& meeting = warp.rendezvous[__builtin_ctz(open)];
        report(worker, "\n  lanes ");
        report_lanes(worker, arrived_at(meeting));
        report(worker, " wait in %s with mask %08x for lanes ", op_name(op_of(meeting)), mask_of(meeting));
        report_lanes(worker, mask_of(meeting) & warp.live & ~arrived_at(meeting));
    }
    if (warp.at_barrier) {
        report(worker, "\n  lanes ");
        report_lanes(worker, warp.at_barrier);
        report(worker, " wait in __syncthreads");
    }
}

} // namespace

const char* op_name(Op op) {
    static const char* const names[] = {
        "__syncwarp",        "__ballot_sync",     "__any_sync",        "__all_sync",
        "__shfl_sync",       "__shfl_up_sync",    "__shfl_down_sync",  "__shfl_xor_sync",
        "__match_any_sync",  "__match_all_sync",  "__reduce_add_sync", "__reduce_min_sync",
        "__reduce_max_sync", "__reduce_min_sync", "__reduce_max_sync", "__reduce_and_sync",
        "__reduce_or_sync",  "__reduce_xor_sync",
    };
    return names[static_cast<uint32_t>(op)];
}

void report(Worker& worker, const char* format, ...) {
    const size_t used = std::strlen(worker.error);
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(worker.error + used, sizeof worker.error - used, format, arguments);
    va_end(arguments);
}

void report_deadlock(Worker& worker) {
    report(worker, "deadlock: lanes that can never run again");
    for (uint32_t i = 0; i < worker.warp_count; ++i)
        if (!worker.warps[i]->ready)
            report_warp(worker, *worker.warps[i]);
}

void report_fault(Worker& worker) {
    const FaultReport& fault = worker.fault;
    const Warp& warp = *fault.lane->warp;
    report(worker, "fault: block %u warp %u lane %u ", warp.block->index.x,
           static_cast<uint32_t>(&warp - warp.block->warps), fault.lane->index);
    switch (fault.what) {
    case Fault::not_in_mask:
        report(worker, "calls %s with mask %08x, which lacks the lane itself", op_name(fault.op), fault.mask);
        break;
    case Fault::bad_width:
        report(worker, "calls %s with mask %08x and width %u, which is not 1, 2, 4, 8, 16 or 32",
               op_name(fault.op), fault.mask, fault.value);
        break;
    case Fault::inactive_source:
        report(worker, "reads lane %u in %s, which is not among the participating lanes %08x", fault.value,
               op_name(fault.op), fault.mask);
        break;
    case Fault::trap:
        report(worker, "stops: %s", fault.text);
        break;
    case Fault::none:
        break;
    }
}

} // namespace simt
