/* SPDX-License-Identifier: MIT */
/*
 * Single stores into the AOTF space of a card that an adapter serves, for its log: a function of
 * the card writes to itself by them, up to 1,024 times, and finds that each has arrived once, as it
 * lay in the store: in the byte order of BAR0. This library's driver makes none.
 *
 *     vipl-test-stores DEVICE COUNT
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/rnic/verbs/command.h"
#include "papers/endpoint.h"
#include "rnic/registers.h"

enum { BYTES = 4096, WORD = 4, PAGE = 7, ENDS = 2 };

/* The driver gives the function the processor's byte order. */
static void set_template(struct vipl_rnic *rnic, const struct endpoint *from, const struct endpoint *to)
{
    struct rnic_command command;
    uint16_t page = PAGE;
    uint64_t address = (uint64_t)(uintptr_t)to->memory;
    vipl_rnic_command_init(&command, rnic, RNIC_COMMAND_SET_TEMPLATE, from->qp.number);
    memcpy(command.entry + RNIC_CMD_TEMPLATE_PAGE, &page, sizeof(page));
    memcpy(command.entry + RNIC_CMD_TEMPLATE_REMOTE_STAG, &to->mr.stag, sizeof(to->mr.stag));
    memcpy(command.entry + RNIC_CMD_TEMPLATE_REMOTE_ADDRESS, &address, sizeof(address));
    endpoint_must("SET_TEMPLATE", vipl_rnic_execute(rnic, &command, NULL));
}

static uint32_t stores_over(const struct rnic_pci *pci)
{
    const void *word = pci->doorbells + RNIC_DB_AOTF_DONE;
    return __atomic_load_n((const uint32_t *)word, __ATOMIC_ACQUIRE);
}

/* Makes one store after the other, and waits for room where the count of those that are over says
 * that there is none; then until all are over. */
static void make_stores(struct vipl_rnic *rnic, struct rnic_pci *pci, uint32_t count)
{
    for (uint32_t made = 0; made <= count; made++) {
        struct vipl_rnic_wait wait = {0};
        while (made - stores_over(pci) >= (made < count ? RNIC_AOTF_STORES : 1)) {
            endpoint_must("stores that are over", vipl_rnic_wait_on(rnic, &wait) ? 0 : ETIMEDOUT);
        }
        if (made < count) {
            pci->ops->write(pci, 0, RNIC_REG_AOTF + PAGE * RNIC_AOTF_PAGE_BYTES + made * WORD, made + 1);
        }
    }
}

/* How many of the stores have arrived; what has arrived wrong ends the program. */
static uint32_t arrived(const uint8_t *memory, uint32_t count)
{
    static const uint8_t nothing[WORD] = {0};
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t wanted[WORD] = {(uint8_t)(i + 1), (uint8_t)((i + 1) >> 8), 0, 0};
        if (memcmp(memory + (size_t)i * WORD, nothing, WORD) != 0) {
            endpoint_must("a store's bytes", memcmp(memory + (size_t)i * WORD, wanted, WORD) == 0 ? 0 : EIO);
            found++;
        }
    }
    return found;
}

int main(int argc, char **argv)
{
    struct vipl_rnic *rnic;
    struct endpoint ends[ENDS];
    uint32_t count = argc == 3 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    if (count == 0 || count > BYTES / WORD) {
        fprintf(stderr, "usage: vipl-test-stores DEVICE COUNT\n");
        return 2;
    }
    endpoint_must("open_rnic", vipl_rnic_open(argv[1], &rnic));
    for (unsigned i = 0; i < ENDS; i++) {
        endpoint_init(&ends[i], rnic, BYTES, NULL);
    }
    endpoint_connect(&ends[0], &ends[1]);
    set_template(rnic, &ends[0], &ends[1]);
    struct rnic_pci *pci = (struct rnic_pci *)(uintptr_t)vipl_rnic_access(rnic);
    endpoint_must("doorbells that are mapped", pci->doorbells != NULL ? 0 : ENOTSUP);
    make_stores(rnic, pci, count);
    uint32_t overrun = pci->ops->read(pci, 0, RNIC_REG_AOTF_OVERRUN_LO);
    uint32_t dropped = pci->ops->read(pci, 0, RNIC_REG_AOTF_DROPPED_LO);
    struct vipl_rnic_wait wait = {0};
    while (arrived(ends[1].memory, count) != count - overrun - dropped) {
        endpoint_must("stores that arrive", vipl_rnic_wait_on(rnic, &wait) ? 0 : ETIMEDOUT);
    }
    printf("stores=%u overrun=%u dropped=%u\n", (unsigned)count, (unsigned)overrun, (unsigned)dropped);
    for (unsigned i = 0; i < ENDS; i++) {
        endpoint_fini(&ends[i]);
    }
    vipl_rnic_close(rnic);
    return 0;
}
