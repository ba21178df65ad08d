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
#include "backends/rnic/verbs/verbs.h"
#include "rnic/registers.h"

enum { BYTES = 4096, WORD = 4, PAGE = 7, COMPLETIONS_LOG2 = 6, ENDS = 2 };

static void must(const char *what, int error)
{
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", what, strerror(error));
        exit(1);
    }
}

/* A queue pair of the function, and the memory that the other one may write. */
struct end {
    struct vipl_rnic_pd pd;
    struct vipl_rnic_cq *cq;
    struct vipl_rnic_qp qp;
    struct vipl_rnic_mr mr;
    uint8_t *memory;
};

static void make_end(struct vipl_rnic *rnic, struct end *end)
{
    memset(end, 0, sizeof(*end));
    end->memory = aligned_alloc(BYTES, BYTES);
    must("memory", end->memory == NULL ? ENOMEM : 0);
    memset(end->memory, 0, BYTES);
    must("allocate_pd", vipl_rnic_allocate_pd(rnic, &end->pd));
    must("create_cq", vipl_rnic_create_cq(rnic, COMPLETIONS_LOG2, 1, &end->cq));
    struct vipl_rnic_qp_attributes attributes = {end->pd, RNIC_LEVEL_DELIVERY, RNIC_RIGHT_REMOTE_WRITE};
    must("create_qp", vipl_rnic_create_qp(rnic, end->cq, &attributes, &end->qp));
    must("allocate_mr",
         vipl_rnic_allocate_mr(rnic, &end->pd, end->memory, BYTES, RNIC_RIGHT_REMOTE_WRITE, &end->mr));
}

static void connect_end(struct vipl_rnic *rnic, struct end *end, const struct end *peer)
{
    const struct vipl_rnic_caps *caps = vipl_rnic_query(rnic);
    struct vipl_rnic_qp_connection connection = {.ird = 1, .ord = 1, .max_message = BYTES};
    memcpy(connection.peer.mac, caps->mac, sizeof(connection.peer.mac));
    connection.peer.function = caps->function;
    connection.peer.qp = peer->qp.number;
    must("modify_qp", vipl_rnic_modify_qp(&end->qp, RNIC_QP_STATE_CONNECTED, &connection));
}

/* The driver gives the function the processor's byte order. */
static void set_template(struct vipl_rnic *rnic, const struct end *from, const struct end *to)
{
    struct rnic_command command;
    uint16_t page = PAGE;
    uint64_t address = (uint64_t)(uintptr_t)to->memory;
    vipl_rnic_command_init(&command, rnic, RNIC_COMMAND_SET_TEMPLATE, from->qp.number);
    memcpy(command.entry + RNIC_CMD_TEMPLATE_PAGE, &page, sizeof(page));
    memcpy(command.entry + RNIC_CMD_TEMPLATE_REMOTE_STAG, &to->mr.stag, sizeof(to->mr.stag));
    memcpy(command.entry + RNIC_CMD_TEMPLATE_REMOTE_ADDRESS, &address, sizeof(address));
    must("SET_TEMPLATE", vipl_rnic_execute(rnic, &command, NULL));
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
            must("stores that are over", vipl_rnic_wait_on(rnic, &wait) ? 0 : ETIMEDOUT);
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
            must("a store's bytes", memcmp(memory + (size_t)i * WORD, wanted, WORD) == 0 ? 0 : EIO);
            found++;
        }
    }
    return found;
}

int main(int argc, char **argv)
{
    struct vipl_rnic *rnic;
    struct end ends[ENDS];
    uint32_t count = argc == 3 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    if (count == 0 || count > BYTES / WORD) {
        fprintf(stderr, "usage: vipl-test-stores DEVICE COUNT\n");
        return 2;
    }
    must("open_rnic", vipl_rnic_open(argv[1], &rnic));
    for (unsigned i = 0; i < ENDS; i++) {
        make_end(rnic, &ends[i]);
    }
    for (unsigned i = 0; i < ENDS; i++) {
        connect_end(rnic, &ends[i], &ends[1 - i]);
    }
    set_template(rnic, &ends[0], &ends[1]);
    struct rnic_pci *pci = (struct rnic_pci *)(uintptr_t)vipl_rnic_access(rnic);
    must("doorbells that are mapped", pci->doorbells != NULL ? 0 : ENOTSUP);
    make_stores(rnic, pci, count);
    uint32_t overrun = pci->ops->read(pci, 0, RNIC_REG_AOTF_OVERRUN_LO);
    uint32_t dropped = pci->ops->read(pci, 0, RNIC_REG_AOTF_DROPPED_LO);
    struct vipl_rnic_wait wait = {0};
    while (arrived(ends[1].memory, count) != count - overrun - dropped) {
        must("stores that arrive", vipl_rnic_wait_on(rnic, &wait) ? 0 : ETIMEDOUT);
    }
    printf("stores=%u overrun=%u dropped=%u\n", (unsigned)count, (unsigned)overrun, (unsigned)dropped);
    vipl_rnic_close(rnic);
    for (unsigned i = 0; i < ENDS; i++) {
        free(ends[i].memory);
    }
    return 0;
}
