// Kernels `check_requests` and `check_order`: the calls of requests.cuh and ordered.cuh, each with contents
// that are looked at.
#include "check/order.cuh"
#include "check/requests.cuh"

WARPBELL_KERNEL(check_requests, warpbell_check_args) { kernels::run_check<kernels::requests_check>(args); }
WARPBELL_KERNEL(check_order, warpbell_check_args) { kernels::run_check<kernels::order_check>(args); }
