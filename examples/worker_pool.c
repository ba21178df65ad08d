/* SPDX-License-Identifier: MIT */
/*
 * A pool of processes before one completion queue. Four workers, forked in advance, serve 64 VIs; a
 * worker that is free takes the next request. Every 100 ms one of them is killed, and another one
 * takes its place. Every request is answered exactly once, or its VI reports an error and the
 * client asks again on a new connection.
 *
 * What a worker does is to be undone when it dies in the middle: so it takes the VI, by one atomic
 * operation in shared memory, before it reaps. The master notices each death, looks up the VI that
 * the dead worker had, and disconnects it.
 */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <vipl/posix.h>

#include "example.h"

enum { WORKERS = 4, CLIENTS = 8, LINES = 64, OF_CLIENT = LINES / CLIENTS };
enum { RUN_MS = 2500, KILL_MS = 100, LOOK_MS = 10, PATIENCE = 30000 };

/* Whose a line is: a worker's number, or */
enum { NOBODY = 0, MASTER = -1, HUNG_UP = -2 };

/* A VI with one descriptor and one number a direction. */
struct line {
    VIP_DESCRIPTOR receive;
    VIP_DESCRIPTOR send;
    VIP_UINT32 in;
    VIP_UINT32 out;
    VIP_VI_HANDLE vi;
    atomic_int owner;
    VIP_UINT32 asked; /* a client's: the question that is open */
} __attribute__((aligned(64)));

/* In memory that all processes of this example share: what they have counted, and when to stop. */
struct totals {
    atomic_uint answers;
    atomic_uint errors;
    atomic_uint kills;
    atomic_bool stop;
};

static struct totals *totals;
static VIP_NIC_HANDLE nic;
static VIP_CQ_HANDLE cq; /* all receives of all lines */
static VIP_MEM_HANDLE memory;
static union example_address here;
static char name[32]; /* this run's */
static struct line *lines;

static long now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void open_line(struct line *line)
{
    VIP_VI_ATTRIBUTES attributes = example_attributes();

    example_must("create", VipCreateVi(nic, &attributes, NULL, cq, &line->vi));
    example_must("remember", VipSetUserData(line->vi, line));
}

/* Ends the connection of the line, if there is one, and posts its one receive again. */
static void renew_line(struct line *line)
{
    VIP_DESCRIPTOR *done;

    example_must("disconnect", VipDisconnect(line->vi));
    while (VipRecvDone(line->vi, &done) != VIP_NOT_DONE || VipSendDone(line->vi, &done) != VIP_NOT_DONE) {
    }
    example_describe(&line->receive, &line->in, sizeof(line->in), memory);
    example_describe(&line->send, &line->out, sizeof(line->out), memory);
    example_must("receive", VipPostRecv(line->vi, &line->receive, memory));
}

/* False: the other side has gone, or the line was taken down. */
static bool say(struct line *line, VIP_UINT32 number)
{
    VIP_DESCRIPTOR *done;

    line->out = number;
    example_must("send", VipPostSend(line->vi, &line->send, memory));
    return VipSendWait(line->vi, PATIENCE, &done) == VIP_SUCCESS;
}

/* --- clients: ordinary programs --- */

static void connect_line(struct line *line)
{
    renew_line(line);
    example_must("connect", VipConnectRequest(line->vi, &here.net, &here.net, PATIENCE, NULL));
}

/* Asks the next question, on a new connection if need be. The answers of old ones do not come any
 * more. */
static void ask(struct line *line)
{
    while (!say(line, ++line->asked)) {
        atomic_fetch_add(&totals->errors, 1);
        connect_line(line);
    }
}

/* Takes one answer, or an error, and says which. */
static bool hear(struct line *line)
{
    VIP_DESCRIPTOR *done;
    VIP_RETURN rc = VipRecvDone(line->vi, &done);

    if (rc == VIP_NOT_DONE) { /* it was reaped when the line was renewed */
        return false;
    }
    if (rc != VIP_SUCCESS) {
        atomic_fetch_add(&totals->errors, 1);
        connect_line(line);
        return true;
    }
    if (line->in != line->asked * line->asked) {
        fprintf(stderr, "%u answers %u\n", (unsigned)line->in, (unsigned)line->asked);
        exit(1);
    }
    atomic_fetch_add(&totals->answers, 1);
    example_must("receive", VipPostRecv(line->vi, &line->receive, memory));
    return true;
}

static int client(void)
{
    static struct line own[OF_CLIENT];
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN is_receive;

    example_must("open", VipOpenNic(NULL, &nic));
    example_must("register", VipRegisterMem(nic, own, sizeof(own), NULL, &memory));
    example_must("queue", VipCreateCQ(nic, 1024, &cq));
    example_local_address(nic, name, &here);
    for (int i = 0; i < OF_CLIENT; i++) {
        open_line(&own[i]);
        connect_line(&own[i]);
        ask(&own[i]);
    }
    long end = now_ms() + RUN_MS;
    while (now_ms() < end) {
        example_must("answer", VipCQWait(cq, PATIENCE, &vi, &is_receive));
        struct line *line = VipGetUserData(vi);
        if (hear(line)) {
            ask(line);
        }
    }
    example_must("close", VipCloseNic(nic)); /* disconnects */
    return 0;
}

/* --- a worker --- */

/* Takes the line for itself; false: the master has it and will renew it, or the program ends. */
static bool take_line(struct line *line, int me)
{
    int owner = NOBODY;

    while (!atomic_compare_exchange_weak(&line->owner, &owner, me)) {
        if (owner == MASTER || owner == HUNG_UP || atomic_load(&totals->stop)) {
            return false;
        }
        owner = NOBODY; /* another worker has it: that one goes on, or the master hears of its end */
        sched_yield();
    }
    return true;
}

static void serve_line(struct line *line)
{
    VIP_DESCRIPTOR *done;
    VIP_RETURN rc = VipRecvDone(line->vi, &done);
    bool well = rc == VIP_NOT_DONE; /* another worker has served it: announced twice, for a death */

    if (rc == VIP_SUCCESS) {
        VIP_UINT32 question = line->in;
        example_must("receive", VipPostRecv(line->vi, &line->receive, memory));
        well = say(line, question * question);
    }
    atomic_store(&line->owner, well ? NOBODY : HUNG_UP);
}

static int worker(int me)
{
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN is_receive;

    while (!atomic_load(&totals->stop)) {
        VIP_RETURN rc = VipCQWait(cq, LOOK_MS * 10, &vi, &is_receive);
        if (rc == VIP_TIMEOUT) {
            continue;
        }
        example_must("request", rc);
        struct line *line = VipGetUserData(vi);
        if (take_line(line, me)) {
            serve_line(line);
        }
    }
    return 0;
}

/* --- the master --- */

static pid_t workers[WORKERS];

static void start_worker(int number)
{
    fflush(NULL);
    workers[number] = fork();
    if (workers[number] == 0) {
        _exit(worker(number + 1));
    }
    if (workers[number] < 0) {
        perror("fork");
        exit(1);
    }
}

/* What the dead one had in hand ends with an error at the client. */
static void replace_worker(int number)
{
    for (int i = 0; i < LINES; i++) {
        int owner = number + 1;
        atomic_compare_exchange_strong(&lines[i].owner, &owner, HUNG_UP);
    }
    start_worker(number);
}

/* Lines without a client are made ready for the next one. */
static void renew_lines(void)
{
    for (int i = 0; i < LINES; i++) {
        int owner = HUNG_UP;
        if (atomic_compare_exchange_strong(&lines[i].owner, &owner, MASTER)) {
            renew_line(&lines[i]);
        }
    }
}

static struct line *free_line(void)
{
    for (int i = 0; i < LINES; i++) {
        if (atomic_load(&lines[i].owner) == MASTER) {
            return &lines[i];
        }
    }
    return NULL;
}

/* Clients that come, and come again. The workers may have the line before its first request can be
 * there. */
static void accept_clients(void)
{
    union example_address remote;
    VIP_VI_ATTRIBUTES theirs;
    VIP_CONN_HANDLE request;
    struct line *line;

    while ((line = free_line()) != NULL) {
        VIP_RETURN rc = VipConnectWait(nic, &here.net, LOOK_MS, &remote.net, &theirs, &request);
        if (rc == VIP_TIMEOUT) {
            return;
        }
        example_must("wait", rc);
        atomic_store(&line->owner, NOBODY);
        rc = VipConnectAccept(request, line->vi);
        if (rc != VIP_SUCCESS) { /* the client has given up */
            int owner = NOBODY;
            while (!atomic_compare_exchange_weak(&line->owner, &owner, HUNG_UP)) {
                owner = NOBODY;
            }
        }
    }
}

/* One of them, at any moment: the clock's last digits decide. */
static void kill_one(long *next)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now_ms() >= *next) {
        kill(workers[now.tv_nsec / 1000 % WORKERS], SIGKILL);
        atomic_fetch_add(&totals->kills, 1);
        *next = now_ms() + KILL_MS / 2 + now.tv_nsec / 1000 % KILL_MS;
    }
}

/* Returns how many clients failed. */
static int run(void)
{
    int clients = CLIENTS;
    int failed = 0;
    long next = now_ms() + KILL_MS;

    while (clients > 0) {
        int status;
        pid_t ended = waitpid(-1, &status, WNOHANG);
        bool is_worker = false;
        for (int i = 0; ended > 0 && i < WORKERS; i++) {
            if (workers[i] == ended) {
                is_worker = true;
                failed += !WIFSIGNALED(status); /* they end by being killed only */
                replace_worker(i);
            }
        }
        if (ended > 0 && !is_worker) {
            clients--;
            failed += status != 0;
        }
        renew_lines();
        accept_clients();
        kill_one(&next);
    }
    return failed;
}

static void open_server(void)
{
    VIP_PVOID shared;

    example_must("open", VipxOpenNic(NULL, VIPX_SHAREABLE, &nic));
    example_must("memory", VipxAllocShared(LINES * sizeof(struct line), &shared));
    lines = shared;
    example_must("register", VipRegisterMem(nic, lines, LINES * sizeof(struct line), NULL, &memory));
    example_must("queue", VipCreateCQ(nic, 1024, &cq));
    example_local_address(nic, name, &here);
    for (int i = 0; i < LINES; i++) {
        open_line(&lines[i]);
        lines[i].owner = HUNG_UP;
    }
    for (int i = 0; i < WORKERS; i++) {
        start_worker(i);
    }
}

int main(void)
{
    totals = mmap(NULL, sizeof(*totals), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (totals == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    snprintf(name, sizeof(name), "pool %d", (int)getpid());
    for (int i = 0; i < CLIENTS; i++) {
        if (fork() == 0) {
            return client();
        }
    }
    open_server();
    int failed = run();
    atomic_store(&totals->stop, true);
    while (wait(NULL) > 0) {
    }
    example_must("close", VipCloseNic(nic));
    printf("%u answers, %u errors, %u workers killed, %d processes failed\n", atomic_load(&totals->answers),
           atomic_load(&totals->errors), atomic_load(&totals->kills), failed);
    return failed != 0 || totals->answers == 0 || totals->kills == 0;
}
