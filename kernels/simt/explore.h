/* explore.h - a worker whose lanes are stepped by hand, for checks that try every schedule. C99.
 *
 * A worker that was created with WB_SIMT_EXPLORE is not stepped: the caller says which lane runs, which store
 * leaves its buffer, and may put a lane back to where it stood before. Each block has one lane, so that a
 * block is one sequential actor, and a store buffer.
 *
 * A lane stops before each access that others can influence: a load, an atomic read-modify-write, and a fence
 * that has to wait for its stores (seq_cst). `advance` performs the access it stopped before and runs the
 * lane to its next stop. A store only goes to the lane's buffer, which nobody else sees, so that it needs no
 * stop; nor does a fence of another order, which only divides the stores before it from those after it. What
 * waits in the buffer leaves it by `drain` alone, which the caller calls in an order that the model of
 * store_buffer.h allows: older stores to the same bytes first, and those of an earlier epoch. Before a lane
 * that stopped before a fence is advanced, its buffer must be empty; before a read-modify-write, no store to
 * the same bytes may wait, and none that is fenced.
 */
#ifndef WARPBELL_SIMT_EXPLORE_H
#define WARPBELL_SIMT_EXPLORE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wb_simt;

enum wb_simt_stop_kind {
    WB_SIMT_STOP_NONE = 0, /* not advanced yet */
    WB_SIMT_STOP_LOAD = 1,
    WB_SIMT_STOP_RMW = 2,
    WB_SIMT_STOP_FENCE = 3, /* one that orders stores before loads, with stores in the buffer */
    WB_SIMT_STOP_DONE = 4,  /* the lane has returned; stores may be left */
    WB_SIMT_STOP_FAULT = 5  /* wb_simt_error tells */
};

/* Where a lane stands. */
struct wb_simt_stop {
    uint32_t kind;
    uint32_t bytes; /* of a load or read-modify-write */
    uint64_t address;
    uint32_t stores; /* in its buffer */
    uint32_t reserved;
};

/* A store that waits in a buffer. */
struct wb_simt_waiting {
    uint64_t address;
    uint32_t bytes;
    uint32_t doorbell; /* 1: an MMIO store */
    uint32_t epoch;    /* those of a smaller one drain earlier */
    uint32_t fenced;   /* 1: a fence came after it */
    unsigned char value[16];
};

struct wb_simt_explore {
    void (*advance)(struct wb_simt* worker, uint32_t block, struct wb_simt_stop* stop);
    /* Store `index` of the block's buffer, the oldest being 0. */
    void (*waiting)(const struct wb_simt* worker, uint32_t block, uint32_t index,
                    struct wb_simt_waiting* store);
    /* Takes it out of the buffer, and writes it to memory unless it is a doorbell, which is the caller's to
     * ring. */
    void (*drain)(struct wb_simt* worker, uint32_t block, uint32_t index);
    /* Copies all that is the lane's own: stack and registers, then the buffer as wb_simt_waiting. The first
     * word counts the words before the buffer, the second the stores in it. Returns the words that all this
     * takes; beyond `room` nothing is copied. Equal copies behave alike. */
    uint64_t (*save)(const struct wb_simt* worker, uint32_t block, uint64_t* to, uint64_t room);
    void (*restore)(struct wb_simt* worker, uint32_t block, const uint64_t* from, struct wb_simt_stop* stop);
};

#ifdef __cplusplus
}
#endif

#endif
