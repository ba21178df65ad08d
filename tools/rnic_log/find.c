/* SPDX-License-Identifier: MIT */
/* Looking up the names of names.c. */
#include <stdbool.h>
#include <stddef.h>

#include "names.h"
#include "rnic/registers.h"

int log_place_of(enum log_table table, uint32_t value)
{
    for (unsigned i = 0; i < log_tables[table].count; i++) {
        if (log_tables[table].of[i].value == value) {
            return (int)i;
        }
    }
    return -1;
}

const char *log_name_of(enum log_table table, uint32_t value)
{
    int place = log_place_of(table, value);
    return place < 0 ? "?" : log_tables[table].of[place].name;
}

const struct log_register *log_register_at(uint64_t offset)
{
    bool is_single =
        offset >= RNIC_REG_AOTF && offset - RNIC_REG_AOTF < (uint64_t)RNIC_AOTF_PAGES * RNIC_AOTF_PAGE_BYTES;
    offset = is_single ? RNIC_REG_AOTF : offset;
    for (unsigned i = 0; i < log_register_count; i++) {
        if (log_registers[i].offset == offset) {
            return &log_registers[i];
        }
    }
    return NULL;
}
