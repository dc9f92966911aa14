/* What the host shares with kernels that use several SSDs as one (volume.cuh). The rules of abi.h hold here
 * too. */
#ifndef WARPBELL_ABI_VOLUME_H
#define WARPBELL_ABI_VOLUME_H

#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WARPBELL_VOLUME_MEMBERS_MAX 32u /* one bit each in volume_state */

/* volume_ref.layout */
#define WARPBELL_VOLUME_STRIPE 0u      /* chunk after chunk goes to member after member */
#define WARPBELL_VOLUME_REPLICATE 1u   /* each member has all chunks */
#define WARPBELL_VOLUME_CONCATENATE 2u /* one member after the other */

/* One SSD of a volume. */
typedef struct warpbell_volume_member {
    uint32_t abi_version, size;
    warpbell_namespace_ref ns;
    uint64_t chunks;     /* chunks of the volume that lie on it, from its block 0 on */
    uint32_t unit_shift; /* its blocks in one block of the volume */
    uint32_t distance;   /* from whoever runs the kernels: `nearest` reads from the smallest */
} warpbell_volume_member;

/* What kernels did on one member; device memory, zeroed by the host. */
typedef struct warpbell_volume_counts {
    uint64_t bytes_read;    /* successfully; added when a warp detaches */
    uint64_t bytes_written; /* likewise */
    uint64_t errors;        /* commands whose status was not success; added at once */
    uint64_t error_status;  /* of one of the last of them */
    uint64_t pad[12];
} warpbell_volume_counts;

/* Which replicas there are; device memory, written by kernels. */
typedef struct warpbell_volume_state {
    uint64_t present; /* bit m: member m has everything that was written. Never 0, and no bit comes back */
    uint64_t avoided; /* bit m: reads go to other members, as long as there are any */
    uint64_t pad[14];
} warpbell_volume_state;

/* Several SSDs as one. Block b of the volume is block b mod chunk_blocks of chunk b div chunk_blocks. */
typedef struct warpbell_volume_ref {
    uint32_t abi_version, size;
    uint64_t
        members;     /* warpbell_volume_member[member_count], readable by kernels; striped: by their chunks */
    uint64_t counts; /* warpbell_volume_counts[member_count] */
    uint64_t state;  /* warpbell_volume_state */
    uint64_t blocks; /* whole chunks */
    uint32_t member_count;
    uint32_t layout;       /* WARPBELL_VOLUME_STRIPE.. */
    uint32_t block_shift;  /* the largest of its members' */
    uint32_t chunk_blocks; /* at least 1 */
    uint32_t piece_blocks; /* what each member takes in one command; at least 1 */
    uint32_t flags;        /* WARPBELL_NAMESPACE_NO_*: of any member */
} warpbell_volume_ref;

/* Memory that each member has mapped. */
typedef struct warpbell_volume_buffer_ref {
    uint32_t abi_version, size;
    uint64_t
        parts; /* warpbell_buffer_ref[member_count], readable by kernels: the same memory for each member */
    uint64_t data; /* where kernels read and write it */
    uint64_t bytes;
    uint32_t member_count;
    uint32_t pad0;
} warpbell_volume_buffer_ref;

#ifdef __cplusplus
}
#endif

#endif
