/* SPDX-License-Identifier: MIT */
/*
 * P4.1: RDMA Writes of 1 to 8 bytes, by a doorbell and DMA, by windows (BOTF) and by single stores
 * (AOTF), between two cards, by the model's profile of Martini, in simulated time. The time of the
 * processor is not in them: its stores are there at once. With --check, 1 tells that one of the
 * three is not better than the one before. By the profile a store costs the card what a message of
 * a window does: what it saves is the completion, and the processor's other stores.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "backends/rnic/verbs/command.h"
#include "endpoint.h"
#include "rate.h"
#include "sim.h"
#include "table.h"

enum {
    FRAME_BYTES = 2048,
    DEPTH = 8,
    PAIRS = 2,
    PAGE = 3,
    STORES = 400,
    MEMORY = 4096,
    MARK = 0xA5,
    IDLE_NS = 100000
};

enum way { BY_DMA, BY_WINDOWS, BY_STORES, WAYS };
static const char *const names[WAYS] = {"by DMA", "by windows", "by single stores"};

/* Two cards, the first of which writes to the second one's DRAM. */
struct scene {
    struct sim *sim;
    struct vipl_rnic *rnics[2];
    struct endpoint from;
    struct endpoint to;
    uint32_t stores; /* made so far */
};

static void set_template(struct scene *scene)
{
    struct rnic_command command;
    vipl_rnic_command_init(&command, scene->rnics[0], RNIC_COMMAND_SET_TEMPLATE, scene->from.qp.number);
    /* the driver of the bench has the byte order of the processor, and so has the card */
    uint16_t page = PAGE;
    uint32_t stag = scene->to.mr.stag;
    uint64_t address = (uint64_t)(uintptr_t)scene->to.memory;
    memcpy(command.entry + RNIC_CMD_TEMPLATE_PAGE, &page, sizeof(page));
    memcpy(command.entry + RNIC_CMD_TEMPLATE_REMOTE_STAG, &stag, sizeof(stag));
    memcpy(command.entry + RNIC_CMD_TEMPLATE_REMOTE_ADDRESS, &address, sizeof(address));
    endpoint_must("SET_TEMPLATE", vipl_rnic_execute(scene->rnics[0], &command, NULL));
}

static void scene_init(struct scene *scene, enum way way)
{
    struct sim_config config = {
        .cards = 2, .mtu = rate_mtu(FRAME_BYTES), .profile = RNIC_PROFILE_MARTINI_2002, .wire = ""};
    *scene = (struct scene){.sim = sim_create(&config)};
    for (unsigned i = 0; i < 2; i++) {
        endpoint_must("open_rnic", vipl_rnic_start(sim_function(scene->sim, i), &scene->rnics[i]));
        vipl_rnic_set_windows(scene->rnics[i], way == BY_WINDOWS ? RNIC_WINDOW_PAYLOAD : 0);
    }
    endpoint_init(&scene->from, scene->rnics[0], MEMORY,
                  way == BY_DMA ? endpoint_device_memory(scene->rnics[0], VIPL_RNIC_DRAM, MEMORY) : NULL);
    endpoint_init(&scene->to, scene->rnics[1], MEMORY,
                  endpoint_device_memory(scene->rnics[1], VIPL_RNIC_DRAM, MEMORY));
    endpoint_connect(&scene->from, &scene->to);
    memset(scene->from.memory, MARK, MEMORY);
    set_template(scene);
}

static void scene_fini(struct scene *scene)
{
    endpoint_fini(&scene->from);
    endpoint_fini(&scene->to);
    for (unsigned i = 0; i < 2; i++) {
        vipl_rnic_close(scene->rnics[i]);
    }
    sim_destroy(scene->sim);
}

static void store(struct scene *scene, uint32_t offset, uint32_t bytes)
{
    sim_store(scene->sim, 0, RNIC_REG_AOTF + PAGE * RNIC_AOTF_PAGE_BYTES + offset, scene->from.memory, bytes);
    scene->stores++;
}

static uint32_t waiting(struct scene *scene)
{
    uint32_t done; /* in the processor's byte order, and by this thread */
    memcpy(&done, sim_function(scene->sim, 0)->doorbells + RNIC_DB_AOTF_DONE, sizeof(done));
    return scene->stores - done;
}

/* Until the byte of the peer's memory is there. Returns when it is. */
static uint64_t wait_for(struct scene *scene, uint32_t offset)
{
    sim_run(scene->sim);
    while (scene->to.memory[offset] != MARK) {
        endpoint_must("a write that is to come", sim_go_on(scene->sim) ? 0 : 1);
        sim_run(scene->sim);
    }
    return sim_now(scene->sim);
}

/* Until nothing is under way any more. */
static void pass_time(struct scene *scene)
{
    uint64_t idle = sim_now(scene->sim) + IDLE_NS;
    sim_run(scene->sim);
    while (sim_now(scene->sim) < idle && sim_go_on(scene->sim)) {
        sim_run(scene->sim);
    }
}

/* A first message, with which the queue pair gets its ring and its window. */
static void warm_up(struct scene *scene, uint32_t bytes)
{
    endpoint_must("room", endpoint_post(&scene->from, &scene->to, bytes) ? 0 : 1);
    while (scene->from.done == 0) {
        sim_run(scene->sim);
        endpoint_take(&scene->from);
        endpoint_must("a completion", scene->from.done > 0 || sim_go_on(scene->sim) ? 0 : 1);
    }
    pass_time(scene);
    memset(scene->to.memory, 0, MEMORY);
}

/* From the post, or the store, of one message until the peer's card writes it, in us. */
static double time_of(enum way way, uint32_t bytes)
{
    struct scene scene;
    scene_init(&scene, way);
    warm_up(&scene, bytes);
    uint64_t begun = sim_now(scene.sim);
    if (way == BY_STORES) {
        store(&scene, 0, bytes);
    } else {
        endpoint_must("room", endpoint_post(&scene.from, &scene.to, bytes) ? 0 : 1);
    }
    double took = (double)(wait_for(&scene, bytes - 1) - begun);
    scene_fini(&scene);
    return took / 1e3;
}

/* As many stores as the card has room for at any time: messages in a second, in millions. */
static double rate_of_stores(uint32_t bytes)
{
    struct scene scene;
    scene_init(&scene, BY_STORES);
    uint64_t begun = sim_now(scene.sim);
    for (;;) {
        while (scene.stores < STORES && waiting(&scene) < RNIC_AOTF_STORES) {
            store(&scene, scene.stores * 8, bytes);
        }
        sim_run(scene.sim);
        if (scene.stores == STORES) {
            break;
        }
        endpoint_must("room for a store", sim_go_on(scene.sim) ? 0 : 1);
    }
    double took = (double)(wait_for(&scene, (STORES - 1) * 8) - begun);
    scene_fini(&scene);
    return STORES * 1e3 / took;
}

static double rate_of(enum way way, uint32_t bytes)
{
    struct rate_setup setup = {.profile = RNIC_PROFILE_MARTINI_2002,
                               .mtu = rate_mtu(FRAME_BYTES),
                               .bytes = bytes,
                               .pairs = PAIRS,
                               .depth = DEPTH,
                               .memory = RATE_DRAM,
                               .windows = way == BY_WINDOWS};
    return way == BY_STORES ? rate_of_stores(bytes) : rate_of_writes(&setup) / bytes;
}

/* DMA of the sending card for one message and its completion. */
static double dma_of(enum way way, uint32_t bytes)
{
    struct scene scene;
    scene_init(&scene, way);
    warm_up(&scene, bytes);
    struct rnic_pci *pci = sim_function(scene.sim, 0);
    uint32_t before =
        pci->ops->read(pci, 0, RNIC_REG_DMA_READS_LO) + pci->ops->read(pci, 0, RNIC_REG_DMA_WRITES_LO);
    if (way == BY_STORES) {
        store(&scene, 0, bytes);
    } else {
        endpoint_must("room", endpoint_post(&scene.from, &scene.to, bytes) ? 0 : 1);
    }
    pass_time(&scene);
    uint32_t after =
        pci->ops->read(pci, 0, RNIC_REG_DMA_READS_LO) + pci->ops->read(pci, 0, RNIC_REG_DMA_WRITES_LO);
    endpoint_take(&scene.from);
    scene_fini(&scene);
    return after - before;
}

/* What a table has of each size and way. */
struct measure {
    const char *title;
    const char *unit;
    double (*of)(enum way way, uint32_t bytes);
    bool more; /* is better */
    bool same; /* a store is as good as a window: they cost the same by the profile */
};

static bool is_good(const struct measure *measure, enum way way, double ours, double before)
{
    bool better = measure->more ? ours > before : ours < before;
    return better || (way == BY_STORES && measure->same && ours == before);
}

static bool compare(const struct measure *measure, bool json)
{
    static const uint32_t sizes[] = {1, 2, 4, 8};
    bool good = true;
    table_begin(measure->title, TABLE_SIMULATED, measure->unit, json);
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        double value[WAYS];
        char name[WAYS][48];
        for (unsigned way = 0; way < WAYS; way++) {
            bool first = way == BY_DMA;
            value[way] = measure->of((enum way)way, sizes[i]);
            snprintf(name[way], sizeof(name[way]), "%s, %u bytes", names[way], (unsigned)sizes[i]);
            table_row(name[way], TABLE_NONE, value[way], first ? NULL : name[BY_DMA], TABLE_NONE,
                      first ? TABLE_NONE : value[way] / value[BY_DMA]);
            good = good && (first || is_good(measure, (enum way)way, value[way], value[way - 1]));
        }
    }
    return good;
}

int main(int argc, char **argv)
{
    static const struct measure measures[] = {
        {"P4.1 time of a single RDMA Write into DRAM", "us", time_of, false, true},
        {"P4.1 small RDMA Writes into DRAM, one way", "million/s", rate_of, true, false},
        {"P4.1 DMA of the sending card for one RDMA Write", "operations", dma_of, false, false},
    };
    struct rate_options options = rate_read_options(argc, argv);
    bool good = true;
    for (unsigned i = 0; i < sizeof(measures) / sizeof(measures[0]); i++) {
        good = compare(&measures[i], options.json) && good;
    }
    if (options.check && !good) {
        fprintf(stderr, "p4_aotf: a way is not better than the one before\n");
        return 1;
    }
    return 0;
}
