/* SPDX-License-Identifier: MIT */
/* What the rows of areas are made of: numbers of known widths. With that an area which a CPU of the
 * other byte order has saved becomes one of this CPU. layout.c is made from the structures. */
#ifndef DEVICES_RNIC_EFE_LAYOUT_H
#define DEVICES_RNIC_EFE_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

/* Numbers of `width` bytes, behind each other. */
struct rnic_run {
    uint32_t count;
    uint32_t width;
};

struct rnic_layout {
    const char *name;
    const struct rnic_run *runs;
    size_t count;
    size_t bytes; /* of a row */
};

/* Turns the numbers of `rows` rows around. Rows of zeros are only read: they stay as they are. */
void rnic_layout_swap(const struct rnic_layout *layout, void *first, uint64_t rows);
/* The same of numbers of one width: 2, 4 or 8. */
void rnic_layout_swap_numbers(void *first, uint64_t count, uint32_t width);

extern const struct rnic_layout rnic_layout_state, rnic_layout_fn, rnic_layout_qp, rnic_layout_inbound,
    rnic_layout_cq, rnic_layout_mr, rnic_layout_listen, rnic_layout_claim, rnic_layout_request,
    rnic_layout_flow, rnic_layout_raw, rnic_layout_template, rnic_layout_store, rnic_layout_faults,
    rnic_layout_switch, rnic_layout_switch_queue, rnic_layout_switch_slot, rnic_layout_switch_held,
    rnic_layout_frames, rnic_layout_efe, rnic_layout_efe_flow, rnic_layout_efe_path, rnic_layout_efe_slot;

#endif
