/* SPDX-License-Identifier: MIT */
/*
 * Device memory: DRAM from offset 0 of BAR4 on, SRAM behind it. The driver's process has it mapped,
 * so that any byte may change at any time: it is accessed as host memory is, in address order, and
 * an aligned word whole. Nothing of it crosses the card's edge when an engine uses it.
 */
#include "devices/rnic/card/devmem.h"

#include <string.h>

#include "devices/rnic/card/cost.h"
#include "devices/rnic/card/faults.h"
#include "devices/rnic/card/record.h"

enum { WORD = sizeof(uintptr_t) }; /* what every CPU loads and stores whole */

static uint64_t devmem_bytes(const struct rnic_card *card)
{
    const struct rnic_card_config *config = &rnic_state(card)->config;
    return (uint64_t)config->dram_bytes + config->sram_bytes;
}

bool rnic_devmem_has(const struct rnic_card *card, unsigned fn, uint64_t offset, uint64_t bytes)
{
    uint64_t all = devmem_bytes(card);
    return card->bar4[fn] != NULL && bytes <= all && offset <= all - bytes;
}

bool rnic_devmem_is_bus(const struct rnic_card *card, unsigned fn, uint64_t address)
{
    const struct rnic_fn *f = rnic_fn(card, fn);
    uint64_t base = (uint64_t)f->bar[5] << 32 | f->bar[4];
    return base != 0 && address >= base && address - base < rnic_card_bar4_bytes(&rnic_state(card)->config);
}

/* --- the engines --- */

static void cost(struct rnic_card *card, unsigned fn, uint64_t offset, bool reads, uint32_t bytes)
{
    bool is_dram = offset < rnic_state(card)->config.dram_bytes;
    rnic_cost_devmem(card, fn, is_dram ? RNIC_PORT_DRAM : RNIC_PORT_SRAM, reads, bytes);
}

static bool is_word(const uint8_t *at, uint32_t left)
{
    return (uintptr_t)at % WORD == 0 && left >= WORD;
}

void rnic_devmem_read(struct rnic_card *card, unsigned fn, uint64_t offset, void *out, uint32_t bytes)
{
    uint8_t *from = card->bar4[fn] + offset;
    uint8_t *to = out;
    cost(card, fn, offset, true, bytes);
    if (rnic_fault_strikes(card, fn, RNIC_FAULT_MEMORY_FLIP)) {
        uint32_t bit = rnic_fault_bit(card, bytes);
        __atomic_fetch_xor(from + bit / 8, (uint8_t)(1u << bit % 8), __ATOMIC_RELAXED);
    }
    for (uint32_t done = 0; done < bytes;) {
        if (is_word(from + done, bytes - done)) { /* pairs with the driver's stores */
            uintptr_t word =
                __atomic_load_n((const uintptr_t *)(const void *)(from + done), __ATOMIC_ACQUIRE);
            memcpy(to + done, &word, WORD);
            done += WORD;
        } else {
            to[done] = __atomic_load_n(from + done, __ATOMIC_ACQUIRE);
            done++;
        }
    }
    rnic_loaded(card, fn, 4, offset, out, bytes);
}

void rnic_devmem_write(struct rnic_card *card, unsigned fn, uint64_t offset, const void *in, uint32_t bytes)
{
    uint8_t *to = card->bar4[fn] + offset;
    const uint8_t *from = in;
    cost(card, fn, offset, false, bytes);
    for (uint32_t done = 0; done < bytes;) {
        uint32_t left = bytes - done;
        if (is_word(to + done, left)) { /* pairs with the driver's loads */
            uintptr_t word;
            memcpy(&word, from + done, WORD);
            __atomic_store_n((uintptr_t *)(void *)(to + done), word, __ATOMIC_RELEASE);
            done += WORD;
        } else if ((uintptr_t)(to + done) % 4 == 0 && left >= 4) {
            uint32_t half;
            memcpy(&half, from + done, 4);
            __atomic_store_n((uint32_t *)(void *)(to + done), half, __ATOMIC_RELEASE);
            done += 4;
        } else {
            __atomic_store_n(to + done, from[done], __ATOMIC_RELEASE);
            done++;
        }
    }
    rnic_stored(card, fn, 4, offset, in, bytes);
}

/* --- the bus --- */

uint64_t rnic_devmem_bus_read(const struct rnic_card *card, unsigned fn, uint64_t offset, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes && offset <= UINT64_MAX - i; i++) {
        if (rnic_devmem_has(card, fn, offset + i, 1)) {
            uint8_t byte = __atomic_load_n(card->bar4[fn] + offset + i, __ATOMIC_RELAXED);
            value |= (uint64_t)byte << 8 * i;
        }
    }
    return value;
}

void rnic_devmem_bus_write(const struct rnic_card *card, unsigned fn, uint64_t offset, unsigned bytes,
                           uint64_t value)
{
    for (unsigned i = 0; i < bytes && offset <= UINT64_MAX - i; i++) {
        if (rnic_devmem_has(card, fn, offset + i, 1)) {
            uint8_t byte = (uint8_t)(value >> 8 * i);
            __atomic_store_n(card->bar4[fn] + offset + i, byte, __ATOMIC_RELEASE);
            rnic_stored(card, fn, 4, offset + i, &byte, sizeof(byte));
        }
    }
}

void rnic_devmem_reset(struct rnic_card *card, unsigned fn)
{
    if (card->bar4[fn] == NULL) {
        return;
    }
    if (card->host->clear != NULL) {
        card->host->clear(card->context, fn);
    } else {
        memset(card->bar4[fn], 0, (size_t)devmem_bytes(card));
    }
}
