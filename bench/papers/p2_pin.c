/* SPDX-License-Identifier: MIT */
/*
 * P2.4: the list of a region's pages, which a card without an IOMMU needs (get_pbl), beside pinning
 * the region (mlock): 4 KiB to 1 GiB, in wall time. All pages are there before either, and are of 4
 * KiB. The pages' addresses come from /proc/self/pagemap, which shows them to root only: without
 * that, the program ends with 77. The paper has figures for 1 MiB and 1 GiB.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "endpoint.h"
#include "os/os.h"
#include "sim.h"
#include "table.h"

enum { PAGE = 4096, SKIPPED = 77, MAX_SAMPLES = 101 };
#define MIB (UINT64_C(1) << 20)

struct options {
    uint64_t most;
    bool json;
};

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* ---- addresses of pages ---------------------------------------------------------------------- */

/* As the driver has them where there is no IOMMU. */
static int pages(struct rnic_pci *pci, const void *address, size_t bytes, uint64_t *out, size_t most,
                 size_t *count, size_t *page_bytes)
{
    (void)pci;
    uintptr_t begin = (uintptr_t)address / PAGE * PAGE;
    *count = ((uintptr_t)address + bytes - begin + PAGE - 1) / PAGE;
    *page_bytes = PAGE;
    return *count > most ? ENOSPC : vipl_physical_pages((const void *)begin, *count, out);
}

static bool frames_are_mappable(void)
{
    static char byte;
    uint64_t frame;
    *(volatile char *)&byte = 1;
    return vipl_physical_pages((const void *)((uintptr_t)&byte / PAGE * PAGE), 1, &frame) == 0;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static uint8_t *memory_of(uint64_t bytes)
{
    uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    endpoint_must("mmap", memory == MAP_FAILED ? errno : 0);
    (void)madvise(memory, bytes, MADV_NOHUGEPAGE); /* a kernel without huge pages refuses */
    for (uint64_t at = 0; at < bytes; at += PAGE) {
        memory[at] = 1;
    }
    return memory;
}

/* Fewer samples where one takes long. */
static unsigned samples_for(uint64_t bytes)
{
    return bytes >= 256 * MIB ? 5 : bytes >= 16 * MIB ? 21 : MAX_SAMPLES;
}

static double pbl_time(struct vipl_rnic *rnic, const uint8_t *memory, uint64_t bytes, size_t *entries)
{
    double samples[MAX_SAMPLES];
    unsigned count = samples_for(bytes);
    for (unsigned i = 0; i < count; i++) {
        struct vipl_rnic_pbl pbl;
        double begun = now_us();
        int error = vipl_rnic_get_pbl(rnic, memory, bytes, &pbl);
        samples[i] = now_us() - begun;
        endpoint_must("get_pbl", error);
        *entries = pbl.count;
        vipl_rnic_free_pbl(rnic, &pbl);
    }
    return table_percentile(samples, count, 50);
}

static double lock_time(const uint8_t *memory, uint64_t bytes)
{
    double samples[MAX_SAMPLES];
    unsigned count = samples_for(bytes);
    for (unsigned i = 0; i < count; i++) {
        double begun = now_us();
        int result = mlock(memory, bytes);
        samples[i] = now_us() - begun;
        endpoint_must("mlock", result != 0 ? errno : 0);
        munlock(memory, bytes);
    }
    return table_percentile(samples, count, 50);
}

static void name_size(char *name, size_t room, const char *what, uint64_t bytes)
{
    static const char units[] = "KMG";
    unsigned unit = 0;
    uint64_t value = bytes >> 10;
    while (value >= 1024 && unit < 2) {
        value >>= 10;
        unit++;
    }
    snprintf(name, room, "%s, %llu %ciB", what, (unsigned long long)value, units[unit]);
}

static void measure(struct vipl_rnic *rnic, uint64_t bytes)
{
    double paper_pbl = bytes == MIB ? 8.35 : bytes == 1024 * MIB ? 8580 : TABLE_NONE;
    double paper_lock = bytes == MIB ? 15.1 : bytes == 1024 * MIB ? 624000 : TABLE_NONE;
    char name[48];
    size_t entries;
    uint8_t *memory = memory_of(bytes);
    double pbl = pbl_time(rnic, memory, bytes, &entries);
    double lock = lock_time(memory, bytes);
    munmap(memory, bytes);
    name_size(name, sizeof(name), "mlock", bytes);
    table_row(name, paper_lock, lock, NULL, TABLE_NONE, TABLE_NONE);
    name_size(name, sizeof(name), "get_pbl", bytes);
    table_row(name, paper_pbl, pbl, "mlock", paper_lock > 0 ? paper_pbl / paper_lock : TABLE_NONE,
              pbl / lock);
    name_size(name, sizeof(name), "get_pbl, a page of", bytes);
    double pages = (double)bytes / PAGE;
    table_row(name, paper_pbl > 0 ? paper_pbl / pages : TABLE_NONE, pbl / pages, NULL, TABLE_NONE,
              TABLE_NONE);
}

/* ---- main ------------------------------------------------------------------------------------ */

static bool read_options(int argc, char **argv, struct options *out)
{
    static const struct option known[] = {
        {"most", required_argument, NULL, 'm'}, {"json", no_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'm':
            out->most = strtoull(optarg, NULL, 10) * MIB;
            break;
        case 'j':
            out->json = true;
            break;
        default:
            return false;
        }
    }
    return out->most > 0;
}

int main(int argc, char **argv)
{
    struct options options = {.most = 1024 * MIB, .json = false};
    if (!read_options(argc, argv, &options)) {
        puts("usage: vipl-bench-p2-pin [--most MIB] [--json]");
        return 2;
    }
    if (!frames_are_mappable()) {
        fprintf(stderr, "p2_pin: /proc/self/pagemap shows no addresses: that needs root\n");
        return SKIPPED;
    }
    struct sim_config config = {.cards = 1, .mtu = 1500, .profile = RNIC_PROFILE_NONE, .wire = ""};
    struct sim *sim = sim_create(&config);
    struct rnic_pci *pci = sim_function(sim, 0);
    struct rnic_pci_ops ops = *pci->ops; /* as on a bus without an IOMMU */
    struct vipl_rnic *rnic;
    ops.pages = pages;
    pci->ops = &ops;
    endpoint_must("open_rnic", vipl_rnic_start(pci, &rnic));
    pci->linear = false;
    table_begin("P2.4 the list of pages, and pinning", TABLE_WALL, "us", options.json);
    for (uint64_t bytes = PAGE; bytes <= options.most; bytes *= 4) {
        measure(rnic, bytes);
    }
    vipl_rnic_close(rnic);
    sim_destroy(sim);
    return 0;
}
