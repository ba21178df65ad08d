/* SPDX-License-Identifier: MIT */
/* Two ends of one connection in this process, each with a NIC handle of its own. */
#ifndef BENCH_ENDS_H
#define BENCH_ENDS_H

#include <stdbool.h>

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

#endif
