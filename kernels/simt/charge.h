// charge.h - launches with costs: what a lane does takes virtual time.
//
// Each lane has a time of its own: when it may perform its next access that others see. Until virtual time
// has come there the lane sleeps, and others run. A load's value is the one that is there when its latency is
// over. Lanes that do the same side by side overlap by themselves. Read-modify-writes of one address are
// served one after the other, in the order in which they are begun. A collective takes all its lanes to the
// latest of them.
//
// Virtual time stands still while anybody can run; then the owner lets it pass to the earliest sleeper's
// time.
#pragma once

#include "hooks.h"

namespace [[gnu::visibility("hidden")]] simt {

// An address whose last read-modify-write is being served.
struct Service {
    uint64_t address, until;
};

struct Charges {
    wb_simt_costs cost;
    const wb_simt_range* host; // sorted, apart
    uint64_t host_ranges;
    uint64_t now; // virtual time
    uint32_t served;
    Service service[]; // one for each resident lane: none has two
};

// Null without memory.
Charges* create_charges(const wb_simt_launch& launch, uint32_t lanes);

// At the beginning of a step, in which virtual time may have passed.
void begin_charged_step(Worker& worker);
// Nobody can run: lets time pass until a sleeper can. False: nobody sleeps.
bool pass_time(Worker& worker);

// Before an access: the lane goes on at the moment at which it is performed.
void charge(Lane& lane, wb_simt_event event, const volatile void* address, uint32_t bytes);
void charge_meeting(Warp& warp, uint32_t group);
void charge_barrier(Block& block);
uint64_t charged_clock_ns(Lane& lane);

} // namespace simt
