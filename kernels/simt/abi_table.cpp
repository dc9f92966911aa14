// abi_table.cpp - the table of sizes and offsets that other languages check their mirrors of abi.h against.
#include <warpbell/abi_table.h>

#define WARPBELL_ROW(s, f)                                                                                   \
    {#s, #f, static_cast<uint32_t>(__builtin_offsetof(s, f)), static_cast<uint32_t>(sizeof(((s*)0)->f))},
#define WARPBELL_ROWS(s, fields)                                                                             \
    {#s, "", static_cast<uint32_t>(alignof(s)), static_cast<uint32_t>(sizeof(s))}, fields(WARPBELL_ROW)

extern "C" const warpbell_abi_row warpbell_abi_table[] = {
    WARPBELL_ABI_STRUCTS(WARPBELL_ROWS){nullptr, nullptr, 0, 0}};
