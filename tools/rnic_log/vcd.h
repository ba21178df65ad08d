/* SPDX-License-Identifier: MIT */
/* A log as a Value Change Dump (IEEE 1364), for waveform viewers. */
#ifndef RNIC_LOG_VCD_H
#define RNIC_LOG_VCD_H

#include <stdio.h>

#include "devices/rnic/card/card.h"

struct vcd {
    FILE *to;
    uint64_t begin; /* the log's first time, in nanoseconds */
    uint64_t at;    /* the time of the last transaction, in picoseconds after that */
    bool any;       /* there was one */
    int high;       /* the wire of the last transaction */
};

/* Declares the wires of the functions of which `has` is true; `adapter`: frames of the adapter
 * itself as well. */
void vcd_begin(struct vcd *vcd, FILE *to, const bool has[RNIC_CARD_MAX_FUNCTIONS], bool adapter);
void vcd_add(struct vcd *vcd, const struct rnic_transaction *c);
void vcd_end(struct vcd *vcd);

#endif
