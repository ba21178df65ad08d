/* SPDX-License-Identifier: MIT */
/* Two ends of one connection, each with a NIC handle of its own: in this process, or the second one
 * in a process that this one has forked. */
#ifndef BENCH_ENDS_H
#define BENCH_ENDS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <vipl/vipl.h>

#include "tool_vipl.h"

struct ends {
    VIP_NIC_HANDLE nic[2];
    VIP_VI_HANDLE vi[2];
    struct tool_mem memory[2];
};

/* Returns true if the call's code is VIP_SUCCESS; otherwise complains of the call `what`. */
bool ends_right(const char *what, VIP_RETURN rc);
/* Connects the VIs. Complains and returns false if that fails. */
bool ends_connect(struct ends *ends);
/* Ends what there is; fields of 0 are what there is not. */
void ends_destroy(struct ends *ends);

/* The second end, in a process of its own: memory that this process may write by RDMA, and a VI
 * that it polls until ends_far_stop(). */
struct ends_far {
    pid_t process;
    int line;                            /* a socket to the process */
    uint64_t address;                    /* of the memory */
    VIP_MEM_HANDLE handle;               /* of the memory */
    const VIP_VI_ATTRIBUTES *attributes; /* of its VI; constant */
    const char *device;                  /* constant */
    size_t bytes;                        /* of the memory; constant */
};

/* Forks the process. To be called before this process opens a NIC handle. The caller has set the
 * last three fields. */
bool ends_far_start(struct ends_far *far);
/* Connects the first end to the process, and sets the rest of *far. */
bool ends_far_connect(struct ends *ends, struct ends_far *far);
void ends_far_stop(struct ends_far *far);

#endif
