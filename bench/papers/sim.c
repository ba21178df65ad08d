/* SPDX-License-Identifier: MIT */
/* Cards, wires and time. A wire is what impair.h makes of it; frames wait in a heap for when they
 * are due. */
#include "sim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "devices/rnic/efe/impair.h"
#include "rnic/registers.h"

enum { MAX_MAPS = 64, SIM_QPS = 64, FIRST_FRAMES = 1024 };

struct range {
    uint64_t iova;
    size_t bytes;
    unsigned access;
};

struct sim_card {
    struct rnic_pci pci; /* first: the driver gives it back */
    struct sim *sim;
    struct rnic_card card;
    void *area;
    uint8_t *bar2;
    uint8_t *bar4;
    size_t bar4_bytes;
    uint8_t mac[6];
    struct rnic_impair wire; /* to this card */
    struct range maps[MAX_MAPS];
    unsigned map_count;
};

struct frame {
    uint64_t due;
    uint64_t number; /* of two that are due at once the earlier one comes first */
    uint8_t *data;
    uint32_t bytes;
};

struct sim {
    struct sim_card cards[SIM_MAX_CARDS];
    unsigned card_count;
    uint64_t now;
    struct frame *heap;
    size_t frames;
    size_t room;
    uint64_t sent;
};

static void die(const char *what)
{
    fprintf(stderr, "sim: %s\n", what);
    exit(2);
}

static void *must(void *memory)
{
    if (memory == NULL || memory == MAP_FAILED) {
        die("no memory");
    }
    return memory;
}

/* ---- frames on their way --------------------------------------------------------------------- */

static bool before(const struct frame *a, const struct frame *b)
{
    return a->due != b->due ? a->due < b->due : a->number < b->number;
}

static void swap(struct frame *a, struct frame *b)
{
    struct frame c = *a;
    *a = *b;
    *b = c;
}

static void push(struct sim *sim, uint64_t due, const uint8_t *data, uint32_t bytes)
{
    if (sim->frames == sim->room) {
        sim->room = sim->room == 0 ? FIRST_FRAMES : 2 * sim->room;
        sim->heap = must(realloc(sim->heap, sim->room * sizeof(*sim->heap)));
    }
    uint8_t *copy = must(malloc(bytes));
    memcpy(copy, data, bytes);
    size_t at = sim->frames++;
    sim->heap[at] = (struct frame){due, sim->sent++, copy, bytes};
    while (at > 0 && before(&sim->heap[at], &sim->heap[(at - 1) / 2])) {
        swap(&sim->heap[at], &sim->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
}

static struct frame pop(struct sim *sim)
{
    struct frame first = sim->heap[0];
    sim->heap[0] = sim->heap[--sim->frames];
    for (size_t at = 0;;) {
        size_t least = 2 * at + 1;
        if (least >= sim->frames) {
            return first;
        }
        if (least + 1 < sim->frames && before(&sim->heap[least + 1], &sim->heap[least])) {
            least++;
        }
        if (!before(&sim->heap[least], &sim->heap[at])) {
            return first;
        }
        swap(&sim->heap[at], &sim->heap[least]);
        at = least;
    }
}

static struct sim_card *card_of(struct sim *sim, const uint8_t *mac)
{
    for (unsigned i = 0; i < sim->card_count; i++) {
        if (memcmp(sim->cards[i].mac, mac, 6) == 0) {
            return &sim->cards[i];
        }
    }
    return NULL;
}

static void pass_wire(struct sim *sim, struct sim_card *to, uint64_t at, const uint8_t *frame, uint32_t bytes)
{
    struct rnic_fate fate;
    rnic_impair_decide(&to->wire, at, bytes, &fate);
    for (unsigned i = 0; i < fate.copies; i++) {
        uint8_t *copy = must(malloc(bytes));
        memcpy(copy, frame, bytes);
        if (fate.corrupted[i]) {
            rnic_impair_corrupt(&to->wire, copy, bytes);
        }
        push(sim, fate.due[i], copy, bytes);
        free(copy);
    }
}

/* ---- what a card does to the world ----------------------------------------------------------- */

/* IOVAs are addresses here; the card may touch what the driver has mapped, and nothing else. */
static void *reach(struct sim_card *card, uint64_t iova, uint32_t bytes, unsigned access)
{
    for (unsigned i = 0; i < card->map_count; i++) {
        const struct range *map = &card->maps[i];
        if (iova >= map->iova && iova - map->iova <= map->bytes && bytes <= map->bytes - (iova - map->iova)) {
            return (map->access & access) != 0 ? (void *)(uintptr_t)iova : NULL;
        }
    }
    return NULL;
}

static bool dma_read(void *context, unsigned fn, uint64_t iova, void *out, uint32_t bytes)
{
    (void)fn;
    const void *from = reach(context, iova, bytes, RNIC_PCI_READ);
    if (from != NULL) {
        memcpy(out, from, bytes);
    }
    return from != NULL;
}

static bool dma_write(void *context, unsigned fn, uint64_t iova, const void *in, uint32_t bytes)
{
    (void)fn;
    void *to = reach(context, iova, bytes, RNIC_PCI_WRITE);
    if (to != NULL) {
        memcpy(to, in, bytes);
    }
    return to != NULL;
}

static bool dma_publish(void *context, unsigned fn, uint64_t iova, const uint8_t word[4])
{
    return dma_write(context, fn, iova, word, 4);
}

static void on_interrupt(void *context, unsigned fn, unsigned vector)
{
    (void)context; /* the driver polls */
    (void)fn;
    (void)vector;
}

static void transmit(void *context, const uint8_t *frame, uint32_t bytes)
{
    struct sim_card *from = context;
    struct sim_card *to = card_of(from->sim, frame);
    if (to != NULL) {
        pass_wire(from->sim, to, rnic_card_now(&from->card), frame, bytes);
    }
}

static const struct rnic_card_host host = {
    .dma_read = dma_read,
    .dma_write = dma_write,
    .dma_publish = dma_publish,
    .interrupt = on_interrupt,
    .transmit = transmit,
};

/* ---- what a driver does to a card ------------------------------------------------------------ */

static struct sim_card *of(struct rnic_pci *pci)
{
    return (struct sim_card *)(void *)pci;
}

static uint32_t pci_read(struct rnic_pci *pci, unsigned bar, uint32_t offset)
{
    return (uint32_t)rnic_card_bar_read(&of(pci)->card, 0, bar, offset, 4);
}

static void pci_write(struct rnic_pci *pci, unsigned bar, uint32_t offset, uint32_t value)
{
    rnic_card_bar_write(&of(pci)->card, 0, bar, offset, 4, value);
}

static uint32_t pci_config_read(struct rnic_pci *pci, uint32_t offset, unsigned bytes)
{
    return rnic_card_config_read(&of(pci)->card, 0, offset, bytes);
}

static void pci_config_write(struct rnic_pci *pci, uint32_t offset, unsigned bytes, uint32_t value)
{
    rnic_card_config_write(&of(pci)->card, 0, offset, bytes, value);
}

static int pci_reset(struct rnic_pci *pci)
{
    struct sim_card *card = of(pci);
    rnic_card_detach(&card->card, 0);
    rnic_card_attach(&card->card, 0, card->bar2, card->bar4);
    return 0;
}

static int pci_map(struct rnic_pci *pci, void *address, size_t bytes, unsigned access, uint64_t *iova)
{
    struct sim_card *card = of(pci);
    if (card->map_count == MAX_MAPS) {
        return ENOSPC;
    }
    *iova = (uint64_t)(uintptr_t)address;
    card->maps[card->map_count++] = (struct range){*iova, bytes, access};
    return 0;
}

static void pci_unmap(struct rnic_pci *pci, uint64_t iova, size_t bytes)
{
    struct sim_card *card = of(pci);
    for (unsigned i = 0; i < card->map_count; i++) {
        if (card->maps[i].iova == iova && card->maps[i].bytes == bytes) {
            card->maps[i] = card->maps[--card->map_count];
            return;
        }
    }
}

static int pci_pages(struct rnic_pci *pci, const void *address, size_t bytes, uint64_t *out, size_t most,
                     size_t *count, size_t *page_bytes)
{
    (void)pci;
    (void)address;
    (void)bytes;
    (void)out;
    (void)most;
    (void)count;
    (void)page_bytes;
    return ENOSYS; /* it is linear */
}

static int pci_slab(struct rnic_pci *pci, size_t bytes, struct rnic_pci_slab *out)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        return ENOMEM;
    }
    out->base = base;
    out->bytes = bytes;
    int error = pci_map(pci, base, bytes, RNIC_PCI_READ | RNIC_PCI_WRITE, &out->iova);
    if (error != 0) {
        munmap(base, bytes);
    }
    return error;
}

static void pci_free_slab(struct rnic_pci *pci, struct rnic_pci_slab *slab)
{
    pci_unmap(pci, slab->iova, slab->bytes);
    munmap(slab->base, slab->bytes);
}

static int pci_interrupt_fd(struct rnic_pci *pci, unsigned vector)
{
    (void)pci;
    (void)vector;
    return -1;
}

static void pci_interrupt_clear(struct rnic_pci *pci, unsigned vector)
{
    (void)pci;
    (void)vector;
}

static void pci_progress(struct rnic_pci *pci)
{
    sim_run(of(pci)->sim);
    sim_go_on(of(pci)->sim);
}

static void pci_wait_hint(struct rnic_pci *pci, int *fd, int *ms)
{
    (void)pci;
    *fd = -1;
    *ms = 0;
}

static bool pci_is_gone(struct rnic_pci *pci)
{
    (void)pci;
    return false;
}

static void pci_nothing(struct rnic_pci *pci)
{
    (void)pci; /* sim_destroy() frees it */
}

static const struct rnic_pci_ops pci_ops = {
    .name = "sim",
    .close = pci_nothing,
    .abandon = pci_nothing,
    .read = pci_read,
    .write = pci_write,
    .config_read = pci_config_read,
    .config_write = pci_config_write,
    .reset = pci_reset,
    .map = pci_map,
    .unmap = pci_unmap,
    .pages = pci_pages,
    .slab = pci_slab,
    .free_slab = pci_free_slab,
    .interrupt_fd = pci_interrupt_fd,
    .interrupt_clear = pci_interrupt_clear,
    .progress = pci_progress,
    .wait_hint = pci_wait_hint,
    .is_gone = pci_is_gone,
};

/* ---- cards and time -------------------------------------------------------------------------- */

static void set_wire(struct sim_card *card, const char *text, unsigned number)
{
    struct rnic_impair_config config;
    char error[128];
    if (!rnic_impair_parse(text, &config, error, sizeof(error))) {
        die(error);
    }
    config.seed += number;
    rnic_impair_init(&card->wire, &config);
}

static void power_up(struct sim *sim, unsigned number, const struct sim_config *config)
{
    struct sim_card *card = &sim->cards[number];
    struct rnic_card_config made = {
        .functions = 1,
        .qps = SIM_QPS,
        .cqs = SIM_QPS,
        .stags = 1024,
        .pbl_entries = 64,
        .flows = 64,
        .frames = 8192,
        .mtu = config->mtu,
        .mac = {0x02, 0, 0, 0, 0, (uint8_t)(number + 1)},
        .dram_bytes = SIM_DRAM_BYTES,
        .sram_bytes = SIM_SRAM_BYTES,
        .seed = number + 1,
        .profile = config->profile,
        .simulated = true,
    };
    size_t bytes = (rnic_card_bytes(&made) + 63) / 64 * 64;
    card->sim = sim;
    memcpy(card->mac, made.mac, sizeof(card->mac));
    card->area = must(aligned_alloc(64, bytes));
    memset(card->area, 0, bytes);
    card->bar2 =
        must(mmap(NULL, RNIC_BAR2_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    card->bar4_bytes = (size_t)rnic_card_bar4_bytes(&made);
    card->bar4 = must(aligned_alloc(64, card->bar4_bytes));
    memset(card->bar4, 0, card->bar4_bytes);
    card->pci = (struct rnic_pci){.ops = &pci_ops,
                                  .doorbells = card->bar2,
                                  .device = card->bar4,
                                  .device_bytes = card->bar4_bytes,
                                  .dma = "simulated",
                                  .linear = true};
    set_wire(card, config->wire, number);
    rnic_card_init(&card->card, card->area, &made, &host, card);
    rnic_card_attach(&card->card, 0, card->bar2, card->bar4);
}

struct sim *sim_create(const struct sim_config *config)
{
    struct sim *sim = must(calloc(1, sizeof(*sim)));
    sim->card_count = config->cards;
    sim->now = 1000000000;
    for (unsigned i = 0; i < config->cards; i++) {
        power_up(sim, i, config);
    }
    return sim;
}

void sim_destroy(struct sim *sim)
{
    for (size_t i = 0; i < sim->frames; i++) {
        free(sim->heap[i].data);
    }
    for (unsigned i = 0; i < sim->card_count; i++) {
        munmap(sim->cards[i].bar2, RNIC_BAR2_BYTES);
        free(sim->cards[i].bar4);
        free(sim->cards[i].area);
    }
    free(sim->heap);
    free(sim);
}

struct rnic_pci *sim_function(struct sim *sim, unsigned card)
{
    return &sim->cards[card].pci;
}

void sim_store(struct sim *sim, unsigned card, uint32_t offset, const uint8_t *bytes, unsigned count)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < count; i++) {
        value |= (uint64_t)bytes[i] << 8 * i;
    }
    rnic_card_bar_write(&sim->cards[card].card, 0, 0, offset, count, value);
}

uint64_t sim_now(const struct sim *sim)
{
    return sim->now;
}

static void deliver_due(struct sim *sim)
{
    while (sim->frames > 0 && sim->heap[0].due <= sim->now) {
        struct frame frame = pop(sim);
        struct sim_card *to =
            card_of(sim, frame.data); /* NOLINT(clang-analyzer-unix.Malloc): another frame each time */
        if (to != NULL) {             /* a corrupted one may be for nobody */
            rnic_card_receive(&to->card, frame.data, frame.bytes);
        }
        free(frame.data);
    }
}

static uint64_t next_event(const struct sim *sim)
{
    uint64_t next = sim->frames > 0 ? sim->heap[0].due : UINT64_MAX;
    for (unsigned i = 0; i < sim->card_count; i++) {
        uint64_t due = rnic_card_deadline(&sim->cards[i].card);
        next = due < next ? due : next;
    }
    return next;
}

void sim_run(struct sim *sim)
{
    do { /* an advance does a bounded amount of work */
        deliver_due(sim);
        for (unsigned i = 0; i < sim->card_count; i++) {
            rnic_card_advance(&sim->cards[i].card, sim->now);
        }
    } while (next_event(sim) <= sim->now);
}

bool sim_go_on(struct sim *sim)
{
    uint64_t next = next_event(sim);
    if (next != UINT64_MAX && next > sim->now) {
        sim->now = next;
    }
    return next != UINT64_MAX;
}
