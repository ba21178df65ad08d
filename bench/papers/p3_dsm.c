/* SPDX-License-Identifier: MIT */
/*
 * P3.4: one page of a distributed shared memory from its home, in wall time, beside the paper's:
 * asked for by a message and copied out of the answer; and read from the home's memory into the
 * page itself, which is registered once, or acquired from the registration cache. Then the whole
 * of a page fault. Two VIs of this process; the home answers at once, so that its time to notice a
 * request is not in the figures. The ways are measured in turn, so that a busy machine delays all
 * alike; a figure is the median of the rounds. Every page that comes is compared.
 */
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <vipl/cache.h>

#include "ends.h"
#include "table.h"
#include "tool_os.h"
#include "tool_text.h"
#include "tool_vipl.h"

enum { PAGE = 4096, ROUNDS = 2000 };

/* The registered memory of an end: descriptors, and the bytes of messages. */
struct desk {
    VIP_DESCRIPTOR receive;
    VIP_DESCRIPTOR send;
    unsigned char in[PAGE];
    unsigned char out[PAGE];
};

/* Two connected VIs: the first one is of the process that misses a page, the second of its home. */
struct dsm {
    struct ends ends;      /* memory: a desk each */
    struct tool_mem home;  /* the page at its home */
    unsigned char *alias;  /* one page where it is missed, always accessible, */
    unsigned char *view;   /* and the same page as the program sees it */
    VIP_MEM_HANDLE once;   /* the alias's registration */
    unsigned char *common; /* one page of private memory, for the cache */
};

struct options {
    const char *device;
    bool json;
};

static struct dsm dsm;

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static struct desk *desk_of(int end)
{
    return (struct desk *)(void *)dsm.ends.memory[end].base;
}

/* ---- connecting ------------------------------------------------------------------------------ */

static bool map_page(void)
{
    char name[64];

    snprintf(name, sizeof(name), "/vipl-p3-dsm-%ld", (long)getpid());
    int file = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (file < 0 || shm_unlink(name) != 0 || ftruncate(file, PAGE) != 0) {
        tool_complain("no shared memory");
        return false;
    }
    dsm.alias = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    dsm.view = mmap(NULL, PAGE, PROT_NONE, MAP_SHARED, file, 0);
    dsm.common = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    close(file);
    return dsm.alias != MAP_FAILED && dsm.view != MAP_FAILED && dsm.common != MAP_FAILED;
}

static bool create(const char *device)
{
    VIP_VI_ATTRIBUTES attributes = {VIP_SERVICE_RELIABLE_DELIVERY, PAGE, NULL, NULL, VIP_FALSE, VIP_TRUE};

    for (int end = 0; end < 2; end++) {
        if (!tool_open(device, &dsm.ends.nic[end]) ||
            !tool_mem_create(dsm.ends.nic[end], sizeof(struct desk), false, false, &dsm.ends.memory[end]) ||
            !ends_right("VipCreateVi",
                        VipCreateVi(dsm.ends.nic[end], &attributes, NULL, NULL, &dsm.ends.vi[end]))) {
            return false;
        }
    }
    return tool_mem_create(dsm.ends.nic[1], PAGE, false, true, &dsm.home) && map_page() &&
           ends_right("VipRegisterMem", VipRegisterMem(dsm.ends.nic[0], dsm.alias, PAGE, NULL, &dsm.once)) &&
           ends_connect(&dsm.ends);
}

static void destroy(void)
{
    if (dsm.once != 0) {
        VipDeregisterMem(dsm.ends.nic[0], dsm.alias, dsm.once);
    }
    tool_mem_destroy(&dsm.home);
    ends_destroy(&dsm.ends);
}

/* ---- one page -------------------------------------------------------------------------------- */

/* Waits for the end's next completion. Meanwhile the home makes progress, which has no receive
 * posted when it is read from. */
static bool await(int end, bool is_receive)
{
    VIP_DESCRIPTOR *desc;
    VIP_RETURN rc;

    while ((rc = is_receive ? VipRecvDone(dsm.ends.vi[end], &desc) : VipSendDone(dsm.ends.vi[end], &desc)) ==
           VIP_NOT_DONE) {
        if (end == 0 && !is_receive) {
            VipRecvDone(dsm.ends.vi[1], &desc);
        }
    }
    return ends_right("a completion", rc);
}

static bool post_receive(int end, uint32_t length)
{
    struct desk *desk = desk_of(end);

    tool_desc_local(&desk->receive, 0, desk->in, dsm.ends.memory[end].handle, length);
    return ends_right("VipPostRecv",
                      VipPostRecv(dsm.ends.vi[end], &desk->receive, dsm.ends.memory[end].handle));
}

static bool say(int end, uint32_t length)
{
    struct desk *desk = desk_of(end);

    tool_desc_local(&desk->send, 0, desk->out, dsm.ends.memory[end].handle, length);
    return ends_right("VipPostSend",
                      VipPostSend(dsm.ends.vi[end], &desk->send, dsm.ends.memory[end].handle)) &&
           await(1 - end, true) && await(end, false);
}

/* The home copies the page into its answer, and the other end out of it. */
static bool by_message(void)
{
    bool good = post_receive(1, 16) && post_receive(0, PAGE) && say(0, 16);

    memcpy(desk_of(1)->out, dsm.home.base, PAGE);
    good = good && say(1, PAGE);
    memcpy(dsm.alias, desk_of(0)->in, PAGE);
    return good;
}

static bool read_page(void *to, VIP_MEM_HANDLE handle)
{
    VIP_DESCRIPTOR *desc = &desk_of(0)->send;

    tool_desc_rdma(desc, VIP_CONTROL_OP_RDMAREAD, (uintptr_t)dsm.home.base, dsm.home.handle, to, handle,
                   PAGE);
    return ends_right("VipPostSend", VipPostSend(dsm.ends.vi[0], desc, dsm.ends.memory[0].handle)) &&
           await(0, false);
}

static bool by_read(void)
{
    return read_page(dsm.alias, dsm.once);
}

static bool by_cache(void)
{
    VIPX_REGISTRATION registration;
    bool good = ends_right("VipxAcquireMem",
                           VipxAcquireMem(dsm.ends.nic[0], dsm.common, PAGE, NULL, 0, &registration)) &&
                read_page(dsm.common, registration.Handle);

    return good && ends_right("VipxReleaseMem", VipxReleaseMem(dsm.ends.nic[0], &registration));
}

/* SIGSEGV: an access to the view, which interrupts no function of VIPL. */
static void on_fault(int signal_number, siginfo_t *info, void *context)
{
    (void)signal_number;
    (void)context;
    if ((unsigned char *)info->si_addr - dsm.view >= PAGE || !by_read() ||
        mprotect(dsm.view, PAGE, PROT_READ) != 0) {
        _exit(TOOL_FAILED);
    }
}

static bool by_fault(void)
{
    const volatile unsigned char *first = dsm.view;

    return *first == dsm.home.base[0];
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct way {
    const char *name;
    bool (*fetch)(void);
    double paper;
} ways[] = {
    {"a message that asks, an answer that is copied", by_message, 385},
    {"RDMA Read into the page, registered once", by_read, TABLE_NONE},
    {"RDMA Read into the page, by the cache", by_cache, 110},
    {"a page fault: the signal, the read, mprotect", by_fault, TABLE_NONE},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

/* The time of one page, which is another one each time. */
static bool fetch_once(const struct way *way, unsigned round, double *took)
{
    const unsigned char *to = way->fetch == by_cache ? dsm.common : dsm.alias;

    memset(dsm.home.base, (int)(round % 251 + 1), PAGE);
    mprotect(dsm.view, PAGE, PROT_NONE);
    double begun = now_us();
    bool good = way->fetch();
    *took = now_us() - begun;
    if (good && memcmp(to, dsm.home.base, PAGE) != 0) {
        tool_complain("%s: the page is WRONG", way->name);
        return false;
    }
    return good;
}

static bool show(const struct options *options)
{
    static double samples[WAYS][ROUNDS];
    double medians[WAYS];

    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < WAYS; i++) {
            if (!fetch_once(&ways[i], round * WAYS + i, &samples[i][round])) {
                return false;
            }
        }
    }
    table_begin("P3.4 one page of a shared memory, 4,096 bytes", TABLE_WALL, "us", options->json);
    for (unsigned i = 0; i < WAYS; i++) {
        medians[i] = table_percentile(samples[i], ROUNDS, 50);
        table_row(ways[i].name, ways[i].paper, medians[i], i == 0 ? NULL : "the first",
                  i == 0 || ways[i].paper < 0 ? TABLE_NONE : ways[i].paper / ways[0].paper,
                  i == 0 ? TABLE_NONE : medians[i] / medians[0]);
    }
    return true;
}

int main(int argc, char **argv)
{
    static const struct option known[] = {
        {"device", required_argument, NULL, 'd'}, {"json", no_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};
    struct options options = {.device = "loopback"};
    struct sigaction action;
    int option;

    tool_name = "vipl-bench-p3-dsm";
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option != 'd' && option != 'j') {
            return TOOL_USAGE;
        }
        options.device = option == 'd' ? optarg : options.device;
        options.json = options.json || option == 'j';
    }
    memset(&action, 0, sizeof(action));
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, NULL);
    bool good = create(options.device) && show(&options);
    destroy();
    return good ? TOOL_OK : TOOL_FAILED;
}
