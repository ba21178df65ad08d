/* SPDX-License-Identifier: MIT */
/* Turning rows of numbers around. */
#include <stdbool.h>

#include "devices/rnic/efe/layout.h"

static void turn(uint8_t *bytes, uint32_t width)
{
    for (uint32_t i = 0; i < width / 2; i++) {
        uint8_t byte = bytes[i];
        bytes[i] = bytes[width - 1 - i];
        bytes[width - 1 - i] = byte;
    }
}

static bool is_zero(const uint8_t *bytes, size_t count)
{
    size_t i = 0;
    while (i < count && bytes[i] == 0) {
        i++;
    }
    return i == count;
}

void rnic_layout_swap(const struct rnic_layout *layout, void *first, uint64_t rows)
{
    uint8_t *row = first;
    for (uint64_t i = 0; i < rows; i++, row += layout->bytes) {
        uint8_t *at = row;
        if (is_zero(row, layout->bytes)) {
            continue;
        }
        for (size_t run = 0; run < layout->count; run++) {
            for (uint32_t n = 0; n < layout->runs[run].count; n++, at += layout->runs[run].width) {
                turn(at, layout->runs[run].width);
            }
        }
    }
}

void rnic_layout_swap_numbers(void *first, uint64_t count, uint32_t width)
{
    const struct rnic_run run = {1, width};
    rnic_layout_swap(&(struct rnic_layout){"numbers", &run, 1, width}, first, count);
}
