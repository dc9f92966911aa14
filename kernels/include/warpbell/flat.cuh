// The flat layer's functions (warpbell_device.h), for a kernel that is compiled as a whole: on the CPU
// target, or by NVRTC. In one file of a program. Others link what an installation has of them in lib/device.
#pragma once

#include "impl/flat_array.cuh"
#include "impl/flat_io.cuh"
