// cache.cpp - the rules of the page cache, one after the other, under drawn schedules with stores held back.
//
//     cache [SEEDS [THREADS [NAME]]]      ends with 1, and the names of the rules that were broken
#include "prefetching.h"

int main(int count, char** words) {
    const u64 seeds = count > 1 ? std::strtoull(words[1], nullptr, 10) : 6;
    threads = count > 2 ? static_cast<u32>(std::atoi(words[2])) : 1;
    const char* const only = count > 3 ? words[3] : nullptr;
    struct {
        const char* name;
        void (*check)(u64 seed);
    } const all[] = {
        {"one_read", one_read},
        {"words_1", words_at<1>},
        {"words_7", words_at<7>},
        {"words_64", words_at<64>},
        {"straddling", straddling},
        {"flushed", flushed},
        {"policies", policies},
        {"crowded", crowded},
        {"unreadable", unreadable},
        {"unwritable", unwritable},
        {"silent", silent},
        {"refusals", refusals},
        {"ends", ends},
        {"hot_line", hot_line},
        {"late_flush", late_flush},
        {"written_once", written_once},
        {"hit_costs", hit_costs},
        {"many_pins", many_pins},
        {"sequences", sequences},
        {"capped", capped},
        {"disorder", disorder},
        {"shared_pages", shared_pages},
        {"crossed", crossed},
        {"modest", modest},
        {"slots_again", slots_again},
        {"unanswered", unanswered},
        {"read_in_vain", read_in_vain},
        {"left_behind", left_behind},
        {"no_room_ahead", no_room_ahead},
        {"useless", useless},
        {"hit_costs_ahead", hit_costs_ahead},
    };
    for (const auto& rule : all) {
        for (u64 seed = 1; seed <= seeds && (!only || !std::strcmp(only, rule.name)); ++seed) {
            const int before = harness::failed;
            rule.check(seed);
            if (harness::failed != before) {
                std::printf("%s is broken, seed %llu\n", rule.name, static_cast<unsigned long long>(seed));
                break;
            }
        }
    }
    return harness::summary("cache");
}
