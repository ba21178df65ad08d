/* SPDX-License-Identifier: MIT */
/* Device memory: BAR4, the memory of a function on the card itself. */
#ifndef DEVICES_RNIC_CARD_DEVMEM_H
#define DEVICES_RNIC_CARD_DEVMEM_H

#include "devices/rnic/card/state.h"

/* Returns true if all bytes are device memory that the function has now. */
bool rnic_devmem_has(const struct rnic_card *card, unsigned fn, uint64_t offset, uint64_t bytes);
/* Returns true if the bus address lies in the function's BAR4. */
bool rnic_devmem_is_bus(const struct rnic_card *card, unsigned fn, uint64_t address);
/* Copy between the card's engines and device memory, which rnic_devmem_has(). */
void rnic_devmem_read(struct rnic_card *card, unsigned fn, uint64_t offset, void *out, uint32_t bytes);
void rnic_devmem_write(struct rnic_card *card, unsigned fn, uint64_t offset, const void *in, uint32_t bytes);
/* Accesses of the bus. Bytes that are not there read as zeros and ignore stores. */
uint64_t rnic_devmem_bus_read(const struct rnic_card *card, unsigned fn, uint64_t offset, unsigned bytes);
void rnic_devmem_bus_write(const struct rnic_card *card, unsigned fn, uint64_t offset, unsigned bytes,
                           uint64_t value);
/* Zeroes the function's memory. */
void rnic_devmem_reset(struct rnic_card *card, unsigned fn);

#endif
