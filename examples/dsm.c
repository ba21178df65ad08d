/* SPDX-License-Identifier: MIT */
/*
 * Distributed shared memory: processes that share pages over VIPL and find them by page faults.
 * Each page has a home among the processes. Elsewhere the page is not accessible at first: an
 * access raises SIGSEGV, whose handler fetches the page from its home by RDMA Read. A page that was
 * written goes back to its home by RDMA Write at the next barrier, where all processes say which
 * pages they have written, and the others' copies of these end.
 *
 * A process has the memory mapped twice: `view` is what its program uses, and what changes its
 * protection; `alias` is what VIPL uses. The alias is registered once and always accessible, so no
 * transfer has to wait for a page.
 *
 * What a program must keep to: between two barriers, no page is written by two processes, and none
 * reads bytes that another one writes. Barriers refuse the first.
 *
 * Here the processes compute a stencil of 32 rows in turn from one grid into another one, and each
 * compares the result with its own.  vipl-example-dsm [PROCESSES]
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "example.h"

enum { ROWS = 32, PAGES = 2 * ROWS, STEPS = 10, MOST = 4, PATIENCE = 30000 };

struct invitation { /* what others must know of a process's alias */
    VIP_UINT64 address;
    VIP_MEM_HANDLE handle;
};

/* What a process says at a barrier: bit n is set if it has written page n. */
typedef VIP_UINT64 notice;

/* Another process, and the VI to it. Two messages at most are under way from it. */
struct peer {
    VIP_DESCRIPTOR receive[2];
    VIP_DESCRIPTOR send;
    struct invitation theirs;
    struct invitation ours;
    notice in[2];
    notice out;
    VIP_VI_HANDLE vi;
} __attribute__((aligned(64)));

static struct peer peers[MOST];
static int me, nodes;
static long parent;
static VIP_NIC_HANDLE nic;
static VIP_MEM_HANDLE own_memory; /* of peers[] */
static VIP_MEM_HANDLE alias_memory;
static size_t page_bytes;
static char *view, *alias;
enum { ABSENT, READABLE, WRITTEN };
static volatile int state[PAGES]; /* of the view's pages; on_fault() changes it at any access to the view */
static volatile int fetched;
static int written_back;

/* --- the memory --- */

static int home_of(int page)
{
    return page % nodes;
}

static void set_state(int page, int to)
{
    static const int protection[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};

    state[page] = to;
    if (mprotect(view + (size_t)page * page_bytes, page_bytes, protection[to]) != 0) {
        perror("mprotect");
        exit(1);
    }
}

static void map_memory(void)
{
    char name[64];

    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    snprintf(name, sizeof(name), "/vipl-dsm-%ld-%d", parent, me);
    int file = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (file < 0 || shm_unlink(name) != 0 || ftruncate(file, (off_t)(PAGES * page_bytes)) != 0) {
        perror("memory");
        exit(1);
    }
    view = mmap(NULL, PAGES * page_bytes, PROT_NONE, MAP_SHARED, file, 0);
    alias = mmap(NULL, PAGES * page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (view == MAP_FAILED || alias == MAP_FAILED) {
        perror("mapping");
        exit(1);
    }
    close(file);
    for (int page = 0; page < PAGES; page++) {
        set_state(page, home_of(page) == me ? READABLE : ABSENT);
    }
}

/* Moves a page between this process's alias and the home's: `operation` is RDMA Read or Write. */
static void transfer(int page, VIP_UINT16 operation)
{
    struct peer *home = &peers[home_of(page)];
    size_t at = (size_t)page * page_bytes;
    VIP_DESCRIPTOR *done;

    memset(&home->send, 0, sizeof(home->send));
    home->send.CS.SegCount = 2;
    home->send.CS.Length = (VIP_UINT32)page_bytes;
    home->send.CS.Control = operation;
    home->send.DS[0].Remote.Data.AddressBits = home->theirs.address + at;
    home->send.DS[0].Remote.Handle = home->theirs.handle;
    home->send.DS[1].Local.Data.Address = alias + at;
    home->send.DS[1].Local.Handle = alias_memory;
    home->send.DS[1].Local.Length = (VIP_UINT32)page_bytes;
    example_must("post", VipPostSend(home->vi, &home->send, own_memory));
    example_must("page", VipSendWait(home->vi, PATIENCE, &done));
}

/* SIGSEGV. The handler may call VIPL, and wait there, because it knows what it has interrupted: an
 * access to the view, and no function of VIPL is ever given the view. */
static void on_fault(int signal_number, siginfo_t *info, void *context)
{
    size_t at = (size_t)((char *)info->si_addr - view);
    int page = at / page_bytes < PAGES ? (int)(at / page_bytes) : -1;

    (void)context;
    if (page < 0 || state[page] == WRITTEN) { /* a true fault: it ends the process when it repeats */
        signal(signal_number, SIG_DFL);
    } else if (state[page] == ABSENT) {
        transfer(page, VIP_CONTROL_OP_RDMAREAD);
        fetched++;
        set_state(page, READABLE);
    } else {
        set_state(page, WRITTEN); /* readable already, so this was a write */
    }
}

static void catch_faults(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, NULL);
}

/* --- the processes --- */

static void post_receive(struct peer *peer, int i)
{
    example_describe(&peer->receive[i], &peer->in[i], sizeof(peer->in[i]), own_memory);
    example_must("receive", VipPostRecv(peer->vi, &peer->receive[i], own_memory));
}

static void send_bytes(struct peer *peer, void *bytes, VIP_UINT32 length)
{
    VIP_DESCRIPTOR *done;

    example_describe(&peer->send, bytes, length, own_memory);
    example_must("send", VipPostSend(peer->vi, &peer->send, own_memory));
    example_must("sent", VipSendWait(peer->vi, PATIENCE, &done));
}

static notice hear(struct peer *peer)
{
    VIP_DESCRIPTOR *done;

    example_must("notice", VipRecvWait(peer->vi, PATIENCE, &done));
    int i = done == &peer->receive[1];
    notice heard = peer->in[i];
    post_receive(peer, i);
    return heard;
}

/* The process with the higher number asks. Then each tells the other where its alias is. */
static void connect_peer(int other)
{
    struct peer *peer = &peers[other];
    VIP_VI_ATTRIBUTES attributes = example_attributes();
    VIP_VI_ATTRIBUTES theirs;
    union example_address here, remote;
    VIP_CONN_HANDLE request;
    VIP_DESCRIPTOR *done;
    char name[32];

    snprintf(name, sizeof(name), "dsm%ld.%d.%d", parent, me < other ? me : other, me < other ? other : me);
    example_local_address(nic, name, &here);
    attributes.MaxTransferSize = page_bytes > 4096 ? (VIP_ULONG)page_bytes : 4096;
    attributes.EnableRdmaRead = VIP_TRUE;
    example_must("create", VipCreateVi(nic, &attributes, NULL, NULL, &peer->vi));
    example_describe(&peer->receive[0], &peer->theirs, sizeof(peer->theirs), own_memory);
    example_must("receive", VipPostRecv(peer->vi, &peer->receive[0], own_memory));
    post_receive(peer, 1);
    if (me > other) {
        example_must("connect", VipConnectRequest(peer->vi, &here.net, &here.net, PATIENCE, &theirs));
    } else {
        example_must("wait", VipConnectWait(nic, &here.net, PATIENCE, &remote.net, &theirs, &request));
        example_must("accept", VipConnectAccept(request, peer->vi));
    }
    peer->ours.address = (VIP_UINT64)(size_t)alias;
    peer->ours.handle = alias_memory;
    send_bytes(peer, &peer->ours, sizeof(peer->ours));
    example_must("invitation", VipRecvWait(peer->vi, PATIENCE, &done));
    post_receive(peer, 0);
}

static void join(void)
{
    VIP_MEM_ATTRIBUTES rights = {NULL, VIP_TRUE, VIP_TRUE};

    example_must("open", VipOpenNic(NULL, &nic));
    example_must("register", VipRegisterMem(nic, peers, sizeof(peers), NULL, &own_memory));
    example_must("register", VipRegisterMem(nic, alias, PAGES * page_bytes, &rights, &alias_memory));
    for (int other = 0; other < nodes; other++) {
        if (other != me) {
            connect_peer(other);
        }
    }
}

/* Tells all others which pages this process has written, and returns what they have. */
static notice exchange(notice mine)
{
    notice others = 0;

    for (int other = 0; other < nodes; other++) {
        if (other != me) {
            peers[other].out = mine;
            send_bytes(&peers[other], &peers[other].out, sizeof(mine));
        }
    }
    for (int other = 0; other < nodes; other++) {
        notice theirs = other != me ? hear(&peers[other]) : 0;
        if ((theirs & (mine | others)) != 0) {
            fprintf(stderr, "a page was written by two processes\n");
            exit(1);
        }
        others |= theirs;
    }
    return others;
}

/* What was written before it, by any process, is what all read after it. */
static void barrier(void)
{
    notice mine = 0;

    for (int page = 0; page < PAGES; page++) {
        if (state[page] == WRITTEN) {
            set_state(page, READABLE);
            mine |= (notice)1 << page;
            if (home_of(page) != me) {
                transfer(page, VIP_CONTROL_OP_RDMAWRITE);
                written_back++;
            }
        }
    }
    notice theirs = exchange(mine);
    /* A VI keeps the order, so a process that has all notices has its pages too. But only what the
     * others say next tells this process that they have theirs. */
    exchange(0);
    for (int page = 0; page < PAGES; page++) {
        if ((theirs >> page & 1) != 0 && home_of(page) != me) {
            set_state(page, ABSENT);
        }
    }
}

/* --- the program: it knows nothing of the above but barrier() --- */

static VIP_UINT32 *row_of(char *memory, int grid, int row)
{
    return (VIP_UINT32 *)(void *)(memory + (size_t)(grid * ROWS + (row + ROWS) % ROWS) * page_bytes);
}

static void begin_row(char *memory, int row)
{
    for (size_t i = 0; i < page_bytes / sizeof(VIP_UINT32); i++) {
        row_of(memory, 0, row)[i] = (VIP_UINT32)(row * 7919) + (VIP_UINT32)i * 104729;
    }
}

/* One row of step n: each cell from its neighbours, on a torus. */
static void compute_row(char *memory, int n, int row)
{
    const VIP_UINT32 *above = row_of(memory, n % 2, row - 1);
    const VIP_UINT32 *here = row_of(memory, n % 2, row);
    const VIP_UINT32 *below = row_of(memory, n % 2, row + 1);
    VIP_UINT32 *out = row_of(memory, (n + 1) % 2, row);
    size_t count = page_bytes / sizeof(VIP_UINT32);

    for (size_t i = 0; i < count; i++) {
        out[i] = 3 * above[i] + 5 * below[i] + 7 * here[(i + 1) % count] + here[(i + count - 1) % count];
    }
}

/* The same by this process alone. Returns how many cells of the shared memory differ. */
static long compare_all(void)
{
    char *alone = calloc(PAGES, page_bytes);
    long wrong = 0;

    if (alone == NULL) {
        return 1;
    }
    for (int row = 0; row < ROWS; row++) {
        begin_row(alone, row);
    }
    for (int n = 0; n < STEPS; n++) {
        for (int row = 0; row < ROWS; row++) {
            compute_row(alone, n, row);
        }
    }
    for (int row = 0; row < ROWS; row++) {
        for (size_t i = 0; i < page_bytes / sizeof(VIP_UINT32); i++) {
            wrong += row_of(view, STEPS % 2, row)[i] != row_of(alone, STEPS % 2, row)[i];
        }
    }
    free(alone);
    return wrong;
}

static int compute(void)
{
    int first = me * ROWS / nodes;
    int end = (me + 1) * ROWS / nodes;

    for (int row = first; row < end; row++) {
        begin_row(view, row);
    }
    barrier();
    for (int n = 0; n < STEPS; n++) {
        for (int row = first; row < end; row++) {
            compute_row(view, n, row);
        }
        barrier();
    }
    long wrong = compare_all();
    printf("process %d: %d pages fetched, %d written back, %ld cells WRONG\n", me, fetched, written_back,
           wrong);
    barrier(); /* the others may still fetch from here */
    return wrong != 0;
}

int main(int argc, char **argv)
{
    int failed = 0;
    int status = 0;

    nodes = argc > 1 ? atoi(argv[1]) : MOST;
    if (nodes < 1 || nodes > MOST) {
        fprintf(stderr, "usage: dsm [1-%d]\n", MOST);
        return 2;
    }
    parent = (long)getpid();
    while (me + 1 < nodes && fork() == 0) {
        me++; /* each process makes the next one */
    }
    map_memory();
    catch_faults();
    join();
    failed = compute();
    for (int other = 0; other < nodes; other++) {
        if (other != me) {
            example_must("disconnect", VipDisconnect(peers[other].vi));
        }
    }
    example_must("close", VipCloseNic(nic));
    return failed || (wait(&status) > 0 && status != 0);
}
