/* SPDX-License-Identifier: MIT */
/* See fake_card.h. */
#include "fake_card.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/little.h"
#include "devices/rnic/card/card.h"
#include "rnic/registers.h"

enum { CONFIG_BYTES = 256, BUFFER_AT = FAKE_BUFFER, REGISTERS = 0x1000, EXPRESS = 0x40, MSIX = 0x90 };

struct function {
    uint8_t config[CONFIG_BYTES];
    uint8_t registers[REGISTERS]; /* the buffer has a place of its own */
    uint8_t buffer[FAKE_BUFFER_BYTES];
    uint8_t table[RNIC_VECTORS * 16];
    uint32_t attaches;
    uint32_t command;
    bool is_lost;
};

struct area {
    uint32_t functions;
    uint64_t now;
    uint32_t sleeps;
    bool link_is_down;
    bool is_removed;
    struct function f[];
};

size_t rnic_card_bytes(const struct rnic_card_config *config)
{
    return sizeof(struct area) + config->functions * sizeof(struct function);
}

static struct area *area_of(const struct rnic_card *card)
{
    return card->area;
}

static void put(uint8_t *at, uint64_t value, unsigned bytes)
{
    vipl_put_little(at, value, bytes);
}

static void begin(struct function *f)
{
    uint8_t *c = f->config;
    memset(f->config, 0, sizeof(f->config));
    memset(f->registers, 0, sizeof(f->registers));
    memset(f->table, 0, sizeof(f->table));
    f->is_lost = false;
    for (unsigned i = 0; i < RNIC_VECTORS; i++) {
        f->table[i * 16 + 12] = 1; /* masked */
    }
    put(f->registers + FAKE_ID, RNIC_ID_VALUE, 4);
    f->command = 0;
    put(c, RNIC_PCI_VENDOR, 2);
    put(c + 2, RNIC_PCI_DEVICE, 2);
    put(c + 6, 0x10, 2); /* there is a list of capabilities */
    put(c + 9, RNIC_PCI_CLASS, 3);
    put(c + 0x34, EXPRESS, 1);
    put(c + EXPRESS, 0x10, 1);
    put(c + EXPRESS + 1, MSIX, 1);
    put(c + EXPRESS + 2, 2, 2);           /* version 2, an endpoint */
    put(c + EXPRESS + 4, 0x10008000u, 4); /* function-level reset */
    put(c + MSIX, 0x11, 1);
    put(c + MSIX + 2, RNIC_VECTORS - 1, 2);
    put(c + MSIX + 4, RNIC_MSIX_TABLE, 4);
    put(c + MSIX + 8, RNIC_MSIX_PBA, 4);
    put(c + 0x18, 0xC, 4); /* BAR2 and BAR3: 64 bits, prefetchable */
}

void rnic_card_init(struct rnic_card *card, void *area, const struct rnic_card_config *config,
                    const struct rnic_card_host *host, void *context)
{
    memset(card, 0, sizeof(*card));
    card->area = area;
    card->host = host;
    card->context = context;
    area_of(card)->functions = config->functions;
}

uint64_t rnic_card_bar4_bytes(const struct rnic_card_config *config)
{
    return config->dram_bytes;
}

void rnic_card_attach(struct rnic_card *card, unsigned fn, uint8_t *bar2, uint8_t *bar4)
{
    card->bar2[fn] = bar2;
    card->bar4[fn] = bar4;
    begin(&area_of(card)->f[fn]);
    area_of(card)->f[fn].attaches++;
}

void rnic_card_detach(struct rnic_card *card, unsigned fn)
{
    if (card->bar4[fn] != NULL) {
        card->host->clear(card->context, fn);
    }
    card->bar2[fn] = NULL;
    card->bar4[fn] = NULL;
    begin(&area_of(card)->f[fn]);
}

uint32_t rnic_card_config_read(struct rnic_card *card, unsigned fn, uint32_t offset, unsigned bytes)
{
    const struct function *f = &area_of(card)->f[fn];
    return offset + bytes <= CONFIG_BYTES ? (uint32_t)vipl_get_little(f->config + offset, bytes) : 0;
}

static void write_bar(struct function *f, uint32_t offset, uint32_t value)
{
    uint32_t mask = offset == 0x10   ? ~(uint32_t)(RNIC_BAR0_BYTES - 1)
                    : offset == 0x18 ? ~(uint32_t)(RNIC_BAR2_BYTES - 1)
                    : offset == 0x1C ? 0xFFFFFFFFu
                                     : 0;
    put(f->config + offset, (value & mask) | (offset == 0x18 ? 0xC : 0), 4);
}

void rnic_card_config_write(struct rnic_card *card, unsigned fn, uint32_t offset, unsigned bytes,
                            uint32_t value)
{
    struct function *f = &area_of(card)->f[fn];
    if (offset == 4 || offset == MSIX + 2 || offset == 0x3C) {
        put(f->config + offset, value, bytes > 2 ? 2 : bytes);
        put(f->config + MSIX + 2, (vipl_get_little16(f->config + MSIX + 2) & 0xC000u) | (RNIC_VECTORS - 1),
            2);
    } else if (offset >= 0x10 && offset < 0x28 && bytes == 4) {
        write_bar(f, offset, value);
    } else if (offset == EXPRESS + 8 && (value & 0x8000u) != 0) {
        begin(f);
    }
}

/* Where a range of BAR0 is kept; NULL: nowhere. */
static uint8_t *kept_at(struct function *f, uint64_t offset, unsigned bytes)
{
    if (offset + bytes <= REGISTERS) {
        return f->registers + offset;
    }
    if (offset >= RNIC_MSIX_TABLE && offset + bytes <= RNIC_MSIX_TABLE + sizeof(f->table)) {
        return f->table + (offset - RNIC_MSIX_TABLE);
    }
    return offset >= FAKE_BUFFER && offset + bytes <= FAKE_BUFFER + FAKE_BUFFER_BYTES
               ? f->buffer + (offset - BUFFER_AT)
               : NULL;
}

uint64_t rnic_card_bar_read(struct rnic_card *card, unsigned fn, unsigned bar, uint64_t offset,
                            unsigned bytes)
{
    struct function *f = &area_of(card)->f[fn];
    if (bar == 2) {
        return card->bar2[fn] == NULL ? 0 : vipl_get_little(card->bar2[fn] + offset, bytes);
    }
    if (bar == 4) {
        return card->bar4[fn] == NULL ? 0 : vipl_get_little(card->bar4[fn] + offset, bytes);
    }
    put(f->registers + FAKE_ATTACHES, f->attaches, 4);
    put(f->registers + FAKE_SLEEPS, area_of(card)->sleeps, 4);
    const uint8_t *at = kept_at(f, offset, bytes);
    return at == NULL ? 0 : vipl_get_little(at, bytes);
}

bool rnic_card_has_lost(const struct rnic_card *card, unsigned fn)
{
    return area_of(card)->is_removed || area_of(card)->f[fn].is_lost;
}

bool rnic_card_has_lost_any(const struct rnic_card *card)
{
    bool any = area_of(card)->is_removed;
    for (unsigned fn = 0; fn < area_of(card)->functions; fn++) {
        any = any || area_of(card)->f[fn].is_lost;
    }
    return any;
}

uint32_t rnic_card_look(struct rnic_card *card, unsigned fn, uint32_t offset)
{
    return (uint32_t)rnic_card_bar_read(card, fn, 0, offset, 4);
}

/* The only transaction of this card that is told of. */
static void tell_of_write(struct rnic_card *card, unsigned fn, unsigned bar, uint64_t offset, unsigned bytes)
{
    struct rnic_transaction transaction = {.kind = RNIC_TRANSACTION_REGISTER_WRITE,
                                           .fn = (uint16_t)fn,
                                           .bar = (uint8_t)bar,
                                           .address = offset,
                                           .bytes = bytes};
    if (card->host->transaction != NULL) {
        card->host->transaction(card->context, &transaction);
    }
}

void rnic_card_bar_write(struct rnic_card *card, unsigned fn, unsigned bar, uint64_t offset, unsigned bytes,
                         uint64_t value)
{
    struct function *f = &area_of(card)->f[fn];
    tell_of_write(card, fn, bar, offset, bytes);
    if (bar == 2) {
        if (card->bar2[fn] != NULL) {
            put(card->bar2[fn] + offset, value, bytes);
            card->bar2[fn][RNIC_DB_QP_HINTS] = 1;
        }
        return;
    }
    if (bar == 4) {
        put(card->bar4[fn] + offset, value, bytes);
        return;
    }
    uint8_t *at = kept_at(f, offset, bytes);
    if (at != NULL) {
        put(at, value, bytes);
    }
    if (offset == FAKE_COMMAND) {
        f->command = (uint32_t)value;
        put(f->registers + FAKE_RESULT, 0, 4);
    }
}

void rnic_card_link(struct rnic_card *card, bool up)
{
    area_of(card)->link_is_down = !up;
}

bool fake_card_link_is_down(const struct rnic_card *card)
{
    return area_of(card)->link_is_down;
}

bool rnic_card_impair(struct rnic_card *card, const char *text, char *error, size_t error_bytes)
{
    (void)card;
    snprintf(error, error_bytes, "the wire of this card cannot be bad");
    return text[0] == '\0';
}

bool rnic_card_faults(struct rnic_card *card, const char *text, char *error, size_t error_bytes)
{
    (void)card;
    snprintf(error, error_bytes, "this card has no faults");
    return text[0] == '\0';
}

void rnic_card_receive(struct rnic_card *card, const uint8_t *frame, uint32_t bytes)
{
    (void)card;
    (void)frame;
    (void)bytes;
}

static bool crawl(struct rnic_card *card, unsigned fn, uint64_t iova, uint8_t *to, uint32_t bytes)
{
    bool good = true;
    for (uint32_t i = 0; good && i < bytes; i++) {
        good = card->host->dma_read(card->context, fn, iova + i, to + i, 1);
    }
    return good;
}

static bool execute(struct rnic_card *card, unsigned fn, uint32_t command)
{
    struct function *f = &area_of(card)->f[fn];
    const struct rnic_card_host *host = card->host;
    uint64_t iova = vipl_get_little64(f->registers + FAKE_IOVA);
    uint32_t bytes = vipl_get_little32(f->registers + FAKE_BYTES);
    if (bytes > FAKE_BUFFER_BYTES) {
        return false;
    }
    switch (command) {
    case FAKE_DMA_READ:
        return host->dma_read(card->context, fn, iova, f->buffer, bytes);
    case FAKE_DMA_WRITE:
        return host->dma_write(card->context, fn, iova, f->buffer, bytes);
    case FAKE_PUBLISH:
        return host->dma_publish(card->context, fn, iova, f->buffer);
    case FAKE_INTERRUPT:
        host->interrupt(card->context, fn, bytes);
        return true;
    case FAKE_TRANSMIT:
        host->transmit(card->context, f->buffer, bytes);
        return true;
    case FAKE_LOSE:
        f->is_lost = true;
        return true;
    case FAKE_REMOVE:
        area_of(card)->is_removed = true;
        return true;
    case FAKE_CRAWL:
        return crawl(card, fn, iova, f->buffer, bytes);
    default:
        return false;
    }
}

static bool look_at_doorbell(struct rnic_card *card, unsigned fn)
{
    uint8_t *bar2 = card->bar2[fn];
    if (bar2 == NULL || __atomic_exchange_n(&bar2[RNIC_DB_QP_HINTS], 0, __ATOMIC_ACQ_REL) == 0) {
        return false;
    }
    put(area_of(card)->f[fn].registers + FAKE_DOORBELL, vipl_get_little32(bar2 + RNIC_DB_QP), 4);
    return true;
}

void rnic_card_advance(struct rnic_card *card, uint64_t now)
{
    struct area *area = area_of(card);
    area->now = now;
    for (unsigned fn = 0; fn < area->functions; fn++) {
        struct function *f = &area->f[fn];
        uint32_t command = f->command;
        look_at_doorbell(card, fn);
        f->command = 0;
        if (command != 0) {
            bool done = execute(card, fn, command);
            put(f->registers + FAKE_RESULT, done ? 1 : 2, 4);
            put(f->registers + FAKE_DONE, vipl_get_little32(f->registers + FAKE_DONE) + 1, 4);
        }
    }
}

uint64_t rnic_card_deadline(const struct rnic_card *card)
{
    const struct area *area = area_of(card);
    for (unsigned fn = 0; fn < area->functions; fn++) {
        if (area->f[fn].command != 0) {
            return area->now;
        }
    }
    return UINT64_MAX;
}

bool rnic_card_sleep(struct rnic_card *card)
{
    struct area *area = area_of(card);
    bool any = false;
    for (unsigned fn = 0; fn < area->functions; fn++) {
        if (card->bar2[fn] != NULL) {
            __atomic_store_n((uint32_t *)(void *)(card->bar2[fn] + RNIC_DB_ASLEEP),
                             vipl_get_little32((const uint8_t *)"\1\0\0"), __ATOMIC_SEQ_CST);
        }
    }
    for (unsigned fn = 0; fn < area->functions; fn++) {
        any = look_at_doorbell(card, fn) || area->f[fn].command != 0 || any;
    }
    area->sleeps += any ? 0 : 1;
    if (any) {
        rnic_card_wake(card);
    }
    return !any;
}

void rnic_card_wake(struct rnic_card *card)
{
    for (unsigned fn = 0; fn < area_of(card)->functions; fn++) {
        if (card->bar2[fn] != NULL) {
            __atomic_store_n((uint32_t *)(void *)(card->bar2[fn] + RNIC_DB_ASLEEP), 0, __ATOMIC_SEQ_CST);
        }
    }
}
