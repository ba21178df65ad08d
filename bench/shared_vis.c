/* SPDX-License-Identifier: MIT */
/*
 * What sharing VIs saves. With private VIs a node of 3 servers and 300 clients in a cluster of 16
 * has 54,000 of them, each connected and hardly used. Here two processes connect as many and use
 * each once; then a family of 300 processes sends the same messages to one server over 4 VIs that
 * it shares. Time and memory of both, all processes and the library's own one included.
 *
 * Memory is the proportional set size: pages that several processes have count once.
 */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vipl/posix.h>

#include "tool_os.h"
#include "tool_text.h"
#include "tool_vipl.h"

enum { BYTES = 8, DEPTH = 256, TIMEOUT_MS = 60000, END_MS = 10000, MAX_CLIENTS = 1000 };

/* A descriptor and its bytes. */
struct slot {
    VIP_DESCRIPTOR desc;
    unsigned char bytes[64];
};

struct plan {
    const char *device;
    unsigned long vis;     /* private ones, and messages of either kind */
    unsigned long clients; /* processes that share */
    unsigned long shared;  /* VIs that they share */
    char name[24];         /* where the server listens */
};

struct result {
    double connect_s;
    double use_s;
    double server_kib;
    double clients_kib; /* one process, or all of the family */
    double idle_kib;    /* the family before it does anything */
    double sharing_kib;
};

static bool right(const char *what, VIP_RETURN rc)
{
    if (rc != VIP_SUCCESS) {
        fprintf(stderr, "%s: %s: %s\n", tool_name, what, VipxStrError(rc));
    }
    return rc == VIP_SUCCESS;
}

static double seconds_since(uint64_t start)
{
    return (double)(tool_now_ns() - start) / 1e9;
}

/* ---- lines between processes: one byte is one word ------------------------------------------- */

static bool tell(int fd)
{
    return write(fd, "x", 1) == 1;
}

static bool hear(int fd)
{
    char byte;
    ssize_t got;

    do {
        got = read(fd, &byte, 1);
    } while (got < 0 && errno == EINTR);
    return got == 1;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* The number after `key` in a file of /proc/PID; 0: there is none. */
static double number_in(const char *pid, const char *file, const char *key)
{
    char path[64];
    char line[512];
    double found = 0;
    FILE *stream;

    snprintf(path, sizeof(path), "/proc/%s/%s", pid, file);
    stream = fopen(path, "r");
    while (stream != NULL && found == 0 && fgets(line, sizeof(line), stream) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            found = strtod(line + strlen(key), NULL);
        }
    }
    if (stream != NULL) {
        fclose(stream);
    }
    return found;
}

static double kib_of(pid_t process)
{
    char pid[16];

    snprintf(pid, sizeof(pid), "%d", (int)process);
    return number_in(pid, "smaps_rollup", "Pss:");
}

static bool has_shared_memory(const char *pid)
{
    char path[300]; /* the longest name that a directory may have, and more */
    char line[512];
    bool found = false;
    FILE *stream;

    snprintf(path, sizeof(path), "/proc/%s/maps", pid);
    stream = fopen(path, "r");
    while (stream != NULL && !found && fgets(line, sizeof(line), stream) != NULL) {
        found = strstr(line, "/memfd:vipl-shared") != NULL;
    }
    if (stream != NULL) {
        fclose(stream);
    }
    return found;
}

/* The sharing server has the memory of the family and a session of its own. 0: not found. */
static pid_t find_sharing_server(void)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    pid_t found = 0;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        pid_t process = (pid_t)strtol(entry->d_name, NULL, 10);

        if (process > 0 && getsid(process) != getsid(0) && has_shared_memory(entry->d_name)) {
            found = process;
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return found;
}

/* ---- the server: one message a VI, or as many as come ---------------------------------------- */

struct server {
    const struct plan *plan;
    VIP_NIC_HANDLE nic;
    VIP_CQ_HANDLE cq;
    struct tool_mem mem;
    struct tool_address local;
};

static bool post_receive(struct server *server, VIP_VI_HANDLE vi, struct slot *slot)
{
    tool_desc_local(&slot->desc, 0, slot->bytes, server->mem.handle, BYTES);
    return right("VipPostRecv", VipPostRecv(vi, &slot->desc, server->mem.handle));
}

static bool accept_one(struct server *server, struct slot *slots, unsigned depth)
{
    VIP_VI_ATTRIBUTES attributes = {VIP_SERVICE_RELIABLE_DELIVERY, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    VIP_VI_ATTRIBUTES theirs;
    struct tool_address remote;
    VIP_CONN_HANDLE request;
    VIP_VI_HANDLE vi;

    if (!right("VipCreateVi", VipCreateVi(server->nic, &attributes, NULL, server->cq, &vi))) {
        return false;
    }
    for (unsigned i = 0; i < depth; i++) {
        if (!post_receive(server, vi, &slots[i])) {
            return false;
        }
    }
    return right("VipConnectWait",
                 tool_connect_wait(server->nic, &server->local, TIMEOUT_MS, &remote, &theirs, &request)) &&
           right("VipConnectAccept", VipConnectAccept(request, vi));
}

static bool receive_all(struct server *server, bool again)
{
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN recv;
    VIP_DESCRIPTOR *done;

    for (unsigned long i = 0; i < server->plan->vis; i++) {
        if (!right("VipCQWait", VipCQWait(server->cq, TIMEOUT_MS, &vi, &recv)) ||
            !right("VipRecvDone", VipRecvDone(vi, &done)) ||
            (again && !post_receive(server, vi, (struct slot *)(void *)done))) {
            return false;
        }
    }
    return true;
}

/* Says so when it listens, has received all; ends when it hears so. */
static bool serve(const struct plan *plan, unsigned long vis, unsigned depth, int line)
{
    struct server server = {.plan = plan};

    if (!tool_open(plan->device, &server.nic) ||
        !tool_mem_create(server.nic, vis * depth * sizeof(struct slot), false, false, &server.mem) ||
        !right("VipCreateCQ", VipCreateCQ(server.nic, (VIP_ULONG)(vis * depth), &server.cq)) ||
        !tool_address_local(server.nic, plan->name, strlen(plan->name), &server.local) || !tell(line)) {
        return false;
    }
    struct slot *slots = (struct slot *)(void *)server.mem.base;
    for (unsigned long i = 0; i < vis; i++) {
        if (!accept_one(&server, slots + i * depth, depth)) {
            return false;
        }
    }
    return receive_all(&server, depth > 1) && tell(line) && hear(line);
}

static pid_t start_server(const struct plan *plan, unsigned long vis, unsigned depth, int *line)
{
    int ends[2];
    pid_t child;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
        return -1;
    }
    child = tool_fork();
    if (child == 0) {
        close(ends[0]);
        _exit(serve(plan, vis, depth, ends[1]) ? 0 : 1);
    }
    close(ends[1]);
    *line = ends[0];
    return hear(*line) ? child : -1;
}

static bool end_server(pid_t server, int line)
{
    bool told = tell(line);
    bool well = tool_wait_child(server, END_MS) == 0;

    close(line);
    return told && well;
}

/* ---- private VIs ----------------------------------------------------------------------------- */

/* VIs of a NIC handle, connected with the server. */
static bool connect_vis(const struct plan *plan, VIP_NIC_HANDLE nic, VIP_VI_HANDLE *vis, unsigned long count)
{
    VIP_VI_ATTRIBUTES attributes = {VIP_SERVICE_RELIABLE_DELIVERY, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    VIP_VI_ATTRIBUTES theirs;
    struct tool_address local;
    struct tool_address remote;

    if (!tool_address_local(nic, "me", 2, &local) ||
        !tool_address_local(nic, plan->name, strlen(plan->name), &remote)) {
        return false;
    }
    for (unsigned long i = 0; i < count; i++) {
        if (!right("VipCreateVi", VipCreateVi(nic, &attributes, NULL, NULL, &vis[i])) ||
            !right("VipConnectRequest",
                   VipConnectRequest(vis[i], &local.u.net, &remote.u.net, TIMEOUT_MS, &theirs))) {
            return false;
        }
    }
    return true;
}

static bool send_one(VIP_VI_HANDLE vi, struct slot *slot, VIP_MEM_HANDLE memory)
{
    VIP_DESCRIPTOR *done;

    tool_desc_local(&slot->desc, 0, slot->bytes, memory, BYTES);
    return right("VipPostSend", VipPostSend(vi, &slot->desc, memory)) &&
           right("VipSendWait", VipSendWait(vi, TIMEOUT_MS, &done));
}

static bool use_privately(const struct plan *plan, int line, pid_t server, struct result *result)
{
    VIP_VI_HANDLE *vis = calloc(plan->vis, sizeof(VIP_VI_HANDLE));
    struct tool_mem mem = {0};
    VIP_NIC_HANDLE nic;
    uint64_t start = tool_now_ns();
    bool well = vis != NULL && tool_open(plan->device, &nic) &&
                tool_mem_create(nic, sizeof(struct slot), false, false, &mem) &&
                connect_vis(plan, nic, vis, plan->vis);

    result->connect_s = seconds_since(start);
    start = tool_now_ns();
    for (unsigned long i = 0; well && i < plan->vis; i++) {
        well = send_one(vis[i], (struct slot *)(void *)mem.base, mem.handle);
    }
    well = well && hear(line);
    result->use_s = seconds_since(start);
    result->clients_kib = kib_of(getpid());
    result->server_kib = kib_of(server);
    if (well) {
        VipCloseNic(nic);
    }
    free(vis);
    return well;
}

static bool run_private(const struct plan *plan, struct result *result)
{
    int line;
    pid_t server = start_server(plan, plan->vis, 1, &line);

    return server > 0 && use_privately(plan, line, server, result) && end_server(server, line);
}

/* ---- shared VIs ------------------------------------------------------------------------------ */

struct family {
    const struct plan *plan;
    VIP_NIC_HANDLE nic;
    VIP_MEM_HANDLE memory;
    struct slot *slots; /* one a process */
    VIP_VI_HANDLE *vis;
    pid_t *children;
    int go[2];   /* a byte for each: do your part */
    int end[2];  /* its end: end */
    int done[2]; /* a byte from each: I am there, then: I have done it */
};

/* Each process takes as many completions as it posts sends, whosoever they are; its own descriptor
 * says when it may be used again. */
static bool be_client(struct family *family, unsigned long number)
{
    const struct plan *plan = family->plan;
    struct slot *slot = &family->slots[number];
    unsigned long messages = plan->vis / plan->clients + (number < plan->vis % plan->clients ? 1 : 0);

    if (!tell(family->done[1]) || !hear(family->go[0])) {
        return false;
    }
    for (unsigned long i = 0; i < messages; i++) {
        if (!send_one(family->vis[number % plan->shared], slot, family->memory)) {
            return false;
        }
        while ((__atomic_load_n(&slot->desc.CS.Status, __ATOMIC_ACQUIRE) & VIP_STATUS_DONE) == 0) {
            sched_yield();
        }
    }
    return tell(family->done[1]) && !hear(family->end[0]);
}

static bool hear_all(struct family *family)
{
    bool well = true;

    for (unsigned long i = 0; well && i < family->plan->clients; i++) {
        well = hear(family->done[0]);
    }
    return well;
}

static bool tell_all(struct family *family)
{
    bool well = true;

    for (unsigned long i = 0; well && i < family->plan->clients; i++) {
        well = tell(family->go[1]);
    }
    return well;
}

static bool fork_family(struct family *family)
{
    for (unsigned long i = 0; i < family->plan->clients; i++) {
        family->children[i] = tool_fork();
        if (family->children[i] == 0) {
            close(family->done[0]);
            close(family->go[1]);
            close(family->end[1]);
            _exit(be_client(family, i) ? 0 : 1);
        }
        if (family->children[i] < 0) {
            return false;
        }
    }
    close(family->done[1]); /* a child that fails is the end of the line, not a hang */
    return hear_all(family);
}

static double kib_of_family(const struct family *family)
{
    double sum = kib_of(getpid());

    for (unsigned long i = 0; i < family->plan->clients; i++) {
        sum += kib_of(family->children[i]);
    }
    return sum;
}

static bool open_family(struct family *family, struct result *result)
{
    const struct plan *plan = family->plan;
    size_t bytes = plan->clients * sizeof(struct slot);
    VIP_PVOID memory;
    uint64_t start = tool_now_ns();
    bool well = pipe(family->go) == 0 && pipe(family->end) == 0 && pipe(family->done) == 0 &&
                right("VipxOpenNic", VipxOpenNic(plan->device, VIPX_SHAREABLE, &family->nic)) &&
                right("VipxAllocShared", VipxAllocShared((VIP_ULONG)bytes, &memory)) &&
                right("VipRegisterMem",
                      VipRegisterMem(family->nic, memory, (VIP_ULONG)bytes, NULL, &family->memory)) &&
                connect_vis(plan, family->nic, family->vis, plan->shared);

    family->slots = well ? memory : NULL;
    result->connect_s = seconds_since(start);
    return well;
}

static bool use_family(struct family *family, int line, pid_t server, struct result *result)
{
    uint64_t start;

    if (!open_family(family, result) || !fork_family(family)) {
        return false;
    }
    result->idle_kib = kib_of_family(family);
    start = tool_now_ns();
    bool well = tell_all(family) && hear_all(family) && hear(line);
    result->use_s = seconds_since(start);
    result->clients_kib = kib_of_family(family);
    result->server_kib = kib_of(server);
    result->sharing_kib = kib_of(find_sharing_server());
    close(family->end[1]);
    for (unsigned long i = 0; i < family->plan->clients; i++) {
        well = tool_wait_child(family->children[i], END_MS) == 0 && well;
    }
    VipCloseNic(family->nic);
    return well;
}

static bool run_shared(const struct plan *plan, struct result *result)
{
    struct family family = {.plan = plan};
    int line;
    pid_t server = start_server(plan, plan->shared, DEPTH, &line);
    bool well = false;

    family.vis = calloc(plan->shared, sizeof(VIP_VI_HANDLE));
    family.children = calloc(plan->clients, sizeof(pid_t));
    if (server > 0 && family.vis != NULL && family.children != NULL) {
        well = use_family(&family, line, server, result) && end_server(server, line);
    }
    free(family.vis);
    free(family.children);
    return well;
}

/* ---- figures --------------------------------------------------------------------------------- */

static double sum_kib(const struct result *result)
{
    return result->server_kib + result->clients_kib + result->sharing_kib;
}

static void print(const struct plan *plan, const struct result *own, const struct result *shared)
{
    printf("%-36s %12s %12s\n", "", "private", "shared");
    printf("%-36s %12lu %12lu\n", "VIs a side", plan->vis, plan->shared);
    printf("%-36s %12d %12lu\n", "client processes", 1, plan->clients);
    printf("%-36s %12lu %12lu\n", "messages", plan->vis, plan->vis);
    printf("%-36s %12.3f %12.3f\n", "seconds to create and connect", own->connect_s, shared->connect_s);
    printf("%-36s %12.3f %12.3f\n", "seconds to use", own->use_s, shared->use_s);
    printf("%-36s %12.0f %12.0f\n", "KiB, server", own->server_kib, shared->server_kib);
    printf("%-36s %12.0f %12.0f\n", "KiB, clients", own->clients_kib, shared->clients_kib);
    printf("%-36s %12s %12.0f\n", "  of these before the first message", "", shared->idle_kib);
    printf("%-36s %12s %12.0f\n", "KiB, sharing server", "", shared->sharing_kib);
    printf("%-36s %12.0f %12.0f\n", "KiB, all", sum_kib(own), sum_kib(shared));
}

static const struct option options[] = {
    {"device", required_argument, NULL, 'd'},  {"vis", required_argument, NULL, 'n'},
    {"clients", required_argument, NULL, 'c'}, {"shared", required_argument, NULL, 's'},
    {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
};

static int run(struct plan *plan)
{
    struct result own = {0};
    struct result shared = {0};

    snprintf(plan->name, sizeof(plan->name), "%d", (int)getpid());
    signal(SIGPIPE, SIG_IGN);
    if (!run_shared(plan, &shared) || !run_private(plan, &own)) {
        return 1;
    }
    print(plan, &own, &shared);
    return 0;
}

int main(int argc, char **argv)
{
    struct plan plan = {.vis = 54000, .clients = 300, .shared = 4};
    int option;

    tool_name = "vipl-bench-shared-vis";
    while ((option = getopt_long(argc, argv, "d:n:c:s:h", options, NULL)) != -1) {
        switch (option) {
        case 'd':
            plan.device = optarg;
            break;
        case 'n':
            plan.vis = strtoul(optarg, NULL, 10);
            break;
        case 'c':
            plan.clients = strtoul(optarg, NULL, 10);
            break;
        case 's':
            plan.shared = strtoul(optarg, NULL, 10);
            break;
        case 'h':
            puts("usage: vipl-bench-shared-vis [--device NAME] [--vis N] [--clients N] [--shared N]");
            return 0;
        default:
            return 2;
        }
    }
    if (plan.vis == 0 || plan.clients == 0 || plan.clients > MAX_CLIENTS || plan.shared == 0 ||
        optind != argc) {
        return 2;
    }
    return run(&plan);
}
