// Kernels `check_each`, `check_outstanding`, `check_commands`, `check_tokens` and `check_coalesced`: the
// calls of io.cuh, outstanding.cuh, deallocate.cuh and coalesce.cuh, each with contents that are looked at.
#include "check/coalesced.cuh"
#include "check/commands.cuh"
#include "check/each.cuh"
#include "check/outstanding.cuh"
#include "check/tokens.cuh"

WARPBELL_KERNEL(check_each, warpbell_check_args) { kernels::run_check<kernels::each_check>(args); }
WARPBELL_KERNEL(check_outstanding, warpbell_check_args) {
    kernels::run_check<kernels::outstanding_check>(args);
}
WARPBELL_KERNEL(check_commands, warpbell_check_args) { kernels::run_check<kernels::commands_check>(args); }
WARPBELL_KERNEL(check_tokens, warpbell_check_args) { kernels::run_check<kernels::tokens_check>(args); }
WARPBELL_KERNEL(check_coalesced, warpbell_check_args) { kernels::run_check<kernels::coalesced_check>(args); }
