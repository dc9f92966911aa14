// Kernels `check_batches` and `check_mail`: what warps of a block do together in its shared memory, by
// batch.cuh and agent.cuh, with contents that are looked at. Blocks of two warps.
#include "check/batches.cuh"
#include "check/mail.cuh"

WARPBELL_KERNEL(check_batches, warpbell_check_args) { kernels::run_check<kernels::batches_check>(args); }
WARPBELL_KERNEL(check_mail, warpbell_check_args) { kernels::run_mail_check(args); }
