/* SPDX-License-Identifier: MIT */
/*
 * The bus between a driver and a card, tried by the smallest driver there is: rings for commands,
 * answers and events, and the commands NOP, LISTEN and UNLISTEN, the second of which makes the card
 * read memory of the program. What goes wrong in a guest is easier to find here than in a
 * conformance suite.
 *
 *     vipl-rnic-bus DEVICE      what follows "rnic:" in a device name
 *
 * Says what it tries, and ends with 0 if all of it is right.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backends/rnic/pci/pci.h"
#include "os/os.h"
#include "os/os_atomic.h"
#include "rnic/entry.h"
#include "rnic/registers.h"

enum {
    LOG2 = 2, /* of all rings */
    ENTRIES = 1 << LOG2,
    ANSWERS = 0x1000, /* offsets in the slab */
    EVENTS = 0x2000,
    PCI_COMMAND = 4,
    PCI_MEMORY_AND_MASTER = 6,
    PATIENCE_MS = 5000, /* times VIPL_TEST_TIMEOUT_SCALE */
    POLL_MS = 1,
    PAGE = 4096
};

static struct rnic_pci *pci;
static struct rnic_pci_slab slab;
static uint32_t posted; /* commands, since the function was enabled */
static bool big;
static unsigned interrupts; /* of vector 0 that were waited for */

static void fail(const char *what, long found, long meant)
{
    printf("bus: %s: %ld (0x%lx), not %ld\n", what, found, (unsigned long)found, meant);
    exit(1);
}

static void expect(const char *what, long found, long meant)
{
    if (found != meant) {
        fail(what, found, meant);
    }
}

static uint32_t reg(uint32_t offset)
{
    return pci->ops->read(pci, 0, offset);
}

static void set_reg(uint32_t offset, uint32_t value)
{
    pci->ops->write(pci, 0, offset, value);
}

static uint64_t patience(void)
{
    const char *scale = getenv("VIPL_TEST_TIMEOUT_SCALE");
    return vipl_now_ns() + (uint64_t)(scale != NULL ? atoi(scale) : 1) * PATIENCE_MS * 1000000;
}

/* Sleeps until vector 0 has fired, or for a moment where nothing fires. */
static bool await_interrupt(void)
{
    int fd = pci->ops->interrupt_fd(pci, 0);
    int error = vipl_poll(&fd, 1, fd < 0 ? POLL_MS : PATIENCE_MS, NULL);
    if (fd >= 0 && error == 0) {
        pci->ops->interrupt_clear(pci, 0);
        interrupts++;
    }
    if (pci->ops->progress != NULL) {
        pci->ops->progress(pci);
    }
    return fd < 0 || error == 0;
}

static void await_status(uint32_t bit, const char *what)
{
    uint64_t end = patience();
    while ((reg(RNIC_REG_STATUS) & bit) == 0) {
        if (vipl_now_ns() > end) {
            fail(what, (long)reg(RNIC_REG_STATUS), (long)bit);
        }
        vipl_poll(NULL, 0, POLL_MS, NULL);
    }
}

/* --- the smallest driver --- */

static void set_base(uint32_t low, uint64_t iova)
{
    set_reg(low, (uint32_t)iova);
    set_reg(low + 4, (uint32_t)(iova >> 32));
}

static void enable(void)
{
    pci->ops->config_write(pci, PCI_COMMAND, 2, PCI_MEMORY_AND_MASTER);
    memset(slab.base, 0, EVENTS + ENTRIES * RNIC_EVENT_BYTES);
    set_base(RNIC_REG_COMMAND_BASE_LO, slab.iova);
    set_base(RNIC_REG_ANSWER_BASE_LO, slab.iova + ANSWERS);
    set_base(RNIC_REG_EVENT_BASE_LO, slab.iova + EVENTS);
    set_reg(RNIC_REG_COMMAND_LOG2, LOG2);
    set_reg(RNIC_REG_EVENT_LOG2, LOG2);
    set_reg(RNIC_REG_CTRL, big ? RNIC_CTRL_BYTE_ORDER : 0);
    set_reg(RNIC_REG_CTRL, (big ? RNIC_CTRL_BYTE_ORDER : 0) | RNIC_CTRL_ENABLE);
    posted = 0;
    await_status(RNIC_STATUS_ENABLED, "STATUS after ENABLE");
    expect("ERROR_CODE", (long)reg(RNIC_REG_ERROR_CODE), 0);
}

static void ring(void)
{
    if (pci->doorbells == NULL) {
        pci->ops->write(pci, 2, RNIC_DB_COMMAND_PRODUCER, posted);
        return;
    }
    uint32_t *doorbells = (uint32_t *)(void *)pci->doorbells;
    vipl_store_release(&doorbells[RNIC_DB_COMMAND_PRODUCER / 4], posted); /* the card's load, acquire */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (vipl_load_relaxed(&doorbells[RNIC_DB_ASLEEP / 4]) != 0) {
        set_reg(RNIC_REG_WAKE, 1);
    }
}

/* The answer to the last command: its status. */
static long await_answer(const char *what)
{
    const uint8_t *answer = slab.base + ANSWERS + (posted - 1) % ENTRIES * RNIC_COMPLETION_BYTES;
    uint64_t end = patience();
    for (;;) {
        uint32_t owner = vipl_load_acquire((const uint32_t *)(const void *)(answer + RNIC_CQE_OWNER));
        if (owner == posted) {
            break;
        }
        if (!await_interrupt() || vipl_now_ns() > end) {
            fail(what, (long)owner, (long)posted);
        }
    }
    expect("COOKIE", (long)rnic_get32(answer + RNIC_CQE_COOKIE, big), (long)(0xC0000000u + posted - 1));
    return rnic_get16(answer + RNIC_CQE_STATUS, big);
}

static long command(const char *what, unsigned opcode, uint64_t address, unsigned length)
{
    uint8_t *entry = slab.base + posted % ENTRIES * RNIC_COMMAND_BYTES;
    memset(entry, 0, RNIC_COMMAND_BYTES);
    rnic_put16(entry + RNIC_CMD_OPCODE, (uint16_t)opcode, big);
    rnic_put32(entry + RNIC_CMD_COOKIE, 0xC0000000u + posted, big);
    rnic_put32(entry + RNIC_CMD_OBJECT, 7, big);
    rnic_put16(entry + RNIC_CMD_LISTEN_LENGTH, (uint16_t)length, big);
    rnic_put64(entry + RNIC_CMD_LISTEN_ADDRESS, address, big);
    posted++;
    ring();
    return await_answer(what);
}

/* --- what is tried --- */

static void try_commands(void)
{
    interrupts = 0;
    for (unsigned i = 0; i < 5 * ENTRIES; i++) {
        expect("NOP", command("answer to NOP", RNIC_COMMAND_NOP, 0, 0), RNIC_STATUS_OK);
    }
    expect("COMMANDS", (long)reg(RNIC_REG_COMMANDS_LO), 5 * ENTRIES);
    if (pci->ops->interrupt_fd(pci, 0) >= 0 &&
        interrupts == 0) { /* each answer was seen before it was waited for */
        expect("an interrupt", await_interrupt(), true);
    }
    printf("bus: %d commands\n", 5 * ENTRIES);
}

/* Where the card finds an address that is mapped at `iova`. */
static uint64_t on_bus(const void *address, uint64_t iova)
{
    uint64_t page;
    size_t count;
    size_t page_bytes;
    if (pci->linear) {
        return iova;
    }
    expect("pages()", pci->ops->pages(pci, address, 1, &page, 1, &count, &page_bytes), 0);
    expect("pages of a byte", (long)count, 1);
    return page + (uintptr_t)address % page_bytes;
}

/* The card reads a name in this memory: it listens for it once, and not a second time. */
static void try_name(const char *what, const char *name, uint64_t address)
{
    unsigned length = (unsigned)strlen(name);
    expect(what, command(what, RNIC_COMMAND_LISTEN, address, length), RNIC_STATUS_OK);
    expect(what, command(what, RNIC_COMMAND_UNLISTEN, address, length), RNIC_STATUS_OK);
}

/* KiB that this process has locked. */
static long locked(void)
{
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        (void)sscanf(line, "VmLck: %ld", &kib);
    }
    if (file != NULL) {
        fclose(file);
    }
    return kib;
}

static void try_map(const char *what, char *memory, unsigned access)
{
    uint64_t first;
    uint64_t second;
    char *name = memory + PAGE - 9; /* it lies in two pages where the bus is linear */
    size_t length = pci->linear ? 20 : 8;
    long before = locked();
    expect(what, pci->ops->map(pci, name, length, access, &first), 0);
    expect(what, pci->ops->map(pci, name, length, access, &second), 0);
    expect("the offset in the page", pci->linear ? (long)(first % PAGE) : (long)(uintptr_t)name % PAGE,
           (long)(uintptr_t)name % PAGE);
    try_name(what, name, on_bus(name, first));
    try_name(what, name, on_bus(name, second)); /* the same memory once more */
    pci->ops->unmap(pci, first, length);
    try_name(what, name, on_bus(name, second)); /* which the other's end does not concern */
    expect("memory that is still locked", locked() > before, true);
    pci->ops->unmap(pci, second, length);
    expect("locked memory afterwards", locked(), before);
    printf("bus: %s\n", what);
}

static char *pages_with_name(const char *name)
{
    char *memory = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        fail("mmap", errno, 0);
    }
    strcpy(memory + PAGE - 9, name);
    return memory;
}

static void try_memory(void)
{
    const char *name = pci->linear ? "a name in two pages!" : "one page";
    char *writable = pages_with_name(name);
    char *readable = pages_with_name(name);
    if (mprotect(readable, 2 * PAGE, PROT_READ) != 0) {
        fail("mprotect", errno, 0);
    }
    try_map("memory that is written", writable, RNIC_PCI_READ | RNIC_PCI_WRITE);
    try_map("memory that is only read", readable, RNIC_PCI_READ);
}

static void try_reset(void)
{
    expect("reset()", pci->ops->reset(pci), 0);
    await_status(RNIC_STATUS_READY, "STATUS after reset");
    expect("ENABLED after reset", (long)(reg(RNIC_REG_STATUS) & RNIC_STATUS_ENABLED), 0);
    enable();
    try_commands();
    printf("bus: reset\n");
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 2) {
        fprintf(stderr, "usage: vipl-rnic-bus DEVICE\n");
        return 2;
    }
    big = rnic_get16((const uint8_t *)&(uint16_t){1}, true) == 1;
    expect(argv[1], rnic_pci_open(argv[1], &pci), 0);
    printf("bus: %s, %s, doorbells %s\n", pci->ops->name, big ? "big-endian" : "little-endian",
           pci->doorbells != NULL ? "mapped" : "written");
    expect("ID", (long)reg(RNIC_REG_ID), RNIC_ID_VALUE);
    expect("slab()", pci->ops->slab(pci, RNIC_PCI_SLAB_BYTES, &slab), 0);
    enable();
    try_commands();
    try_memory();
    try_reset();
    pci->ops->free_slab(pci, &slab);
    pci->ops->close(pci);
    printf("bus: all is right\n");
    return 0;
}
