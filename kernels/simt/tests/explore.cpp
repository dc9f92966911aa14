// Lanes that are stepped by hand: where they stop, what waits, and that they can be put back.
#include "harness.h"

#include "simt/explore.h"

namespace {

struct Words {
    uint64_t x = 0, y = 0, found = 0;
};

wb_simt_launch explored() {
    wb_simt_launch launch = harness::shape(1, 1);
    launch.flags = WB_SIMT_EXPLORE;
    launch.store_buffer = 8;
    return launch;
}

wb_simt* create(wb_simt_launch launch, Words& words) {
    const auto program = [&words] {
        simt::store(&words.x, 1);
        simt::fence(simt::order::acq_rel, simt::scope::gpu);
        simt::store(&words.y, simt::load(&words.y) + 2);
        simt::fence(simt::order::seq_cst, simt::scope::gpu);
        words.found = simt::cas(&words.x, 1, 3, simt::order::relaxed);
    };
    harness::set_kernel(launch, program);
    return wb_simt_create(&launch);
}

#if SIMT_ASAN || SIMT_TSAN

void sanitizers_are_refused() {
    Words words;
    CHECK(create(explored(), words) == nullptr);
}

#else

void a_launch_that_cannot_be_explored_is_refused() {
    Words words;
    wb_simt_launch launch = explored();
    launch.block_x = 2;
    CHECK(create(launch, words) == nullptr);
    launch = explored();
    launch.store_buffer = 0;
    CHECK(create(launch, words) == nullptr);
    launch = explored();
    launch.seed = 1;
    CHECK(create(launch, words) == nullptr);
}

void a_lane_stops_where_others_may_come_in_between() {
    Words words;
    wb_simt* worker = create(explored(), words);
    const wb_simt_explore& explore = *wb_simt_explore_table;
    wb_simt_stop stop = {};
    CHECK(wb_simt_step(worker, 1) == WB_SIMT_FAULT);
    explore.advance(worker, 0, &stop);
    CHECK(stop.kind == WB_SIMT_STOP_LOAD && stop.address == reinterpret_cast<uint64_t>(&words.y));
    CHECK(stop.stores == 1 && words.x == 0);
    words.y = 5;
    explore.advance(worker, 0, &stop);
    CHECK(stop.kind == WB_SIMT_STOP_FENCE && stop.stores == 2);
    wb_simt_waiting first = {}, second = {};
    explore.waiting(worker, 0, 0, &first);
    explore.waiting(worker, 0, 1, &second);
    CHECK(first.address == reinterpret_cast<uint64_t>(&words.x) && first.fenced == 1);
    CHECK(second.value[0] == 7 && first.epoch < second.epoch && second.fenced == 0);
    explore.drain(worker, 0, 0);
    CHECK(words.x == 1 && words.y == 5);
    explore.drain(worker, 0, 0);
    CHECK(words.y == 7);
    explore.advance(worker, 0, &stop);
    CHECK(stop.kind == WB_SIMT_STOP_RMW && stop.bytes == 8);
    explore.advance(worker, 0, &stop);
    CHECK(stop.kind == WB_SIMT_STOP_DONE && words.x == 3 && words.found == 1);
    wb_simt_destroy(worker);
}

void a_lane_can_be_put_back() {
    Words words;
    wb_simt* worker = create(explored(), words);
    const wb_simt_explore& explore = *wb_simt_explore_table;
    wb_simt_stop stop = {};
    explore.advance(worker, 0, &stop);
    std::vector<uint64_t> saved(explore.save(worker, 0, nullptr, 0));
    CHECK(explore.save(worker, 0, saved.data(), saved.size()) == saved.size());
    for (uint64_t y : {10u, 20u}) {
        explore.restore(worker, 0, saved.data(), &stop);
        CHECK(stop.kind == WB_SIMT_STOP_LOAD && stop.stores == 1);
        std::vector<uint64_t> again(saved.size());
        CHECK(explore.save(worker, 0, again.data(), again.size()) == again.size() && again == saved);
        words = {};
        words.y = y;
        explore.advance(worker, 0, &stop);
        explore.drain(worker, 0, 0);
        explore.drain(worker, 0, 0);
        CHECK(words.x == 1 && words.y == y + 2);
        explore.advance(worker, 0, &stop);
        explore.advance(worker, 0, &stop);
        CHECK(stop.kind == WB_SIMT_STOP_DONE);
    }
    wb_simt_destroy(worker);
}

#endif

} // namespace

int main() {
#if SIMT_ASAN || SIMT_TSAN
    sanitizers_are_refused();
#else
    a_launch_that_cannot_be_explored_is_refused();
    a_lane_stops_where_others_may_come_in_between();
    a_lane_can_be_put_back();
#endif
    return harness::summary("explore");
}
