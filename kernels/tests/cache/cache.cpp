// cache.cpp - the rules of the page cache, one after the other, under drawn schedules with stores held back.
//
//     cache [SEEDS [THREADS [NAME [RULE]]]]      ends with 1, and the names of the scenarios that were broken
//
// RULE: a rule of mutation.cuh that is switched off, such as NO_TURN, where this was compiled with
// -DWARPBELL_SWITCHES; it ends with 2 where there is no such switch.
#include "prefetching.h"

#include <cctype>
#include <dlfcn.h>

// Sets the variable of `warpbell::mutate` for a rule, by its name in this program.
static bool switch_off(const char* rule) {
    std::string name(rule);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    const std::string mangled = "_ZN8warpbell6mutate" + std::to_string(name.size()) + name + "E";
    auto* const variable = static_cast<bool*>(dlsym(RTLD_DEFAULT, mangled.c_str()));
    if (!variable)
        return false;
    *variable = true;
    return true;
}

int main(int count, char** words) {
    const u64 seeds = count > 1 ? std::strtoull(words[1], nullptr, 10) : 6;
    threads = count > 2 ? static_cast<u32>(std::atoi(words[2])) : 1;
    const char* const only = count > 3 ? words[3] : nullptr;
    if (count > 4 && !switch_off(words[4])) {
        std::fprintf(stderr, "no switch for %s in this program\n", words[4]);
        return 2;
    }
    struct {
        const char* name;
        void (*check)(u64 seed);
    } const all[] = {
        {"one_read", one_read},
        {"changing_line", changing_line},
        {"one_bucket", one_bucket},
        {"counted_once", counted_once},
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
        {"unfit", unfit},
        {"hot_line", hot_line},
        {"hot_word", hot_word},
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
        {"refused_ahead", refused_ahead},
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
