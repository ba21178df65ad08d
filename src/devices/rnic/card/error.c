/* SPDX-License-Identifier: MIT */
/* The error log keeps the first error since it was cleared, and counts the others. */
#include "devices/rnic/card/error.h"

void rnic_error_log(struct rnic_card *card, unsigned fn, uint32_t code, uint32_t object, uint64_t address)
{
    struct rnic_fn *f = rnic_fn(card, fn);
    if (f->error_count == 0) {
        f->error_code = code;
        f->error_object = object;
        f->error_address = address;
    }
    f->error_count += f->error_count != UINT32_MAX;
}

void rnic_catastrophe(struct rnic_card *card, unsigned fn, uint32_t code, uint32_t object)
{
    struct rnic_fn *f = rnic_fn(card, fn);
    if (f->catastrophic) {
        return;
    }
    rnic_error_log(card, fn, code, object, 0);
    f->catastrophic = true;
    f->cut = true;
    rnic_state(card)->cut++;
}
