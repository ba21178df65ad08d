/* SPDX-License-Identifier: MIT */
/*
 * What the machine can do without VIPL, on the same two CPUs: a ping-pong, and a stream, through
 * shared memory that copies the payload once and raises a flag; memcpy(); reading another process's
 * memory in one system call; and through a plain TCP connection (tcp.c). Measured between the
 * rounds of the VIPL figures, so that both see the same machine.
 *
 * The second process sleeps in read() until it is told to play; so it does not disturb VIPL's
 * rounds. Flags have 32 bits, which every CPU reads and writes whole.
 */
#include "perf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tcp.h"
#include "tool_os.h"
#include "tool_text.h"

#define LINE 128
#define COPY_SLOTS 2
#define STREAM_SLOTS 16
#define GUESS 64 /* round trips or copies of the first try */
#define SPIN_ROUNDS 16384
#define PATIENCE_NS UINT64_C(10000000000) /* the other process has died */

struct line {
    uint32_t value;
    char rest[LINE - sizeof(uint32_t)];
};

/* Shared by both processes; payload areas follow. */
struct area {
    struct line ping; /* number of the last message to the second process */
    struct line pong; /* the same in the other direction; in a stream, messages taken */
    struct line stop; /* one of the processes gave up */
};

struct perf_limits {
    pid_t child;
    int channel; /* carries struct order */
    struct area *area;
    unsigned char *to_child;  /* in the shared mapping, STREAM_SLOTS payloads */
    unsigned char *to_parent; /* in the shared mapping */
    unsigned char *mine;      /* private, COPY_SLOTS payloads */
    size_t room;              /* bytes of one payload */
    size_t mapped;
    int tcp[2];      /* this process's end, the second's; -1: not compared */
    bool reads_peer; /* until it failed once */
};

enum play { PLAY_PINGS, PLAY_STREAM, PLAY_TCP };

struct order {
    uint32_t size;
    uint32_t count;
    enum play play;
    struct perf_tcp_order tcp;
};

/* ---- shared memory ping-pong ----------------------------------------------------------------- */

/* Wait until the flag has reached `number`; false after a stop, or when it takes too long. */
static bool spin_until(struct perf_limits *limits, const struct line *flag, uint32_t number)
{
    uint32_t turns = 0;
    uint64_t since = 0;

    /* pairs with the release in tell() of the other process */
    while ((int32_t)(__atomic_load_n(&flag->value, __ATOMIC_ACQUIRE) - number) < 0) {
        tool_relax();
        if (++turns % SPIN_ROUNDS != 0) {
            continue;
        }
        since = since == 0 ? tool_now_ns() : since;
        if (tool_stop || __atomic_load_n(&limits->area->stop.value, __ATOMIC_RELAXED) != 0 ||
            tool_now_ns() - since > PATIENCE_NS) {
            return false;
        }
    }
    return true;
}

static void tell(struct line *flag, uint32_t number)
{
    __atomic_store_n(&flag->value, number, __ATOMIC_RELEASE);
}

static void answer_pings(struct perf_limits *limits, const struct order *order)
{
    for (uint32_t number = 1; number <= order->count; number++) {
        if (!spin_until(limits, &limits->area->ping, number)) {
            return;
        }
        memcpy(limits->to_parent, limits->mine, order->size);
        tell(&limits->area->pong, number);
    }
}

/* Takes each message of a stream by saying so: the one copy was the sender's. */
static void take_stream(struct perf_limits *limits, const struct order *order)
{
    for (uint32_t number = 1; number <= order->count; number++) {
        if (!spin_until(limits, &limits->area->ping, number)) {
            return;
        }
        tell(&limits->area->pong, number);
    }
}

/* The second process: plays until the channel closes. */
static void child_main(struct perf_limits *limits, int channel, int cpu)
{
    struct order order;

    tool_pin(cpu);
    signal(SIGINT, SIG_IGN); /* the first process decides */
    memset(limits->mine, 2, COPY_SLOTS * limits->room);
    while (read(channel, &order, sizeof(order)) == (ssize_t)sizeof(order)) {
        switch (order.play) {
        case PLAY_PINGS:
            answer_pings(limits, &order);
            break;
        case PLAY_STREAM:
            take_stream(limits, &order);
            break;
        case PLAY_TCP:
            perf_tcp_answer(limits->tcp[1], limits->mine, &order.tcp);
            break;
        }
    }
    _exit(0);
}

static bool write_order(const struct perf_limits *limits, const struct order *order)
{
    return write(limits->channel, order, sizeof(*order)) == (ssize_t)sizeof(*order);
}

static bool give_order(struct perf_limits *limits, uint32_t size, uint32_t count, enum play play)
{
    struct order order;

    memset(&order, 0, sizeof(order));
    order.size = size;
    order.count = count;
    order.play = play;
    limits->area->ping.value = 0;
    limits->area->pong.value = 0;
    return write_order(limits, &order);
}

static bool send_pings(struct perf_limits *limits, uint32_t size, uint32_t count, struct perf_hist *hist)
{
    uint64_t last = 0;

    if (!give_order(limits, size, count, PLAY_PINGS)) {
        return false;
    }
    for (uint32_t number = 1; number <= count; number++) {
        uint64_t now;

        memcpy(limits->to_child, limits->mine, size);
        tell(&limits->area->ping, number);
        now = tool_now_ns();
        if (number > 2) { /* the first ping wakes the other process up */
            perf_hist_add(hist, now - last);
        }
        last = now;
        if (!spin_until(limits, &limits->area->pong, number)) {
            tell(&limits->area->stop, 1);
            return false;
        }
    }
    return true;
}

/* Round trips for about `duration_ns`; the median one way, in us. */
static double measure_shm(struct perf_limits *limits, uint32_t size, uint64_t duration_ns)
{
    static struct perf_hist hist;
    double round_trip;
    double count;

    perf_hist_clear(&hist);
    if (!send_pings(limits, size, GUESS, &hist)) {
        return NAN;
    }
    round_trip = perf_hist_at(&hist, 0.5);
    count = (double)duration_ns / (round_trip > 1 ? round_trip : 1);
    count = count < GUESS ? GUESS : count > 100e6 ? 100e6 : count;
    perf_hist_clear(&hist);
    if (!send_pings(limits, size, (uint32_t)count, &hist)) {
        return NAN;
    }
    return perf_hist_at(&hist, 0.5) / 2e3;
}

/* Copy `count` messages into free slots; the ns it took until the last was taken, 0 on a stop. */
static uint64_t send_stream(struct perf_limits *limits, uint32_t size, uint32_t count)
{
    uint64_t start;

    if (!give_order(limits, size, count, PLAY_STREAM)) {
        return 0;
    }
    tell(&limits->area->ping, 1); /* wakes the other process up before the clock runs */
    if (!spin_until(limits, &limits->area->pong, 1)) {
        return 0;
    }
    start = tool_now_ns();
    for (uint32_t number = 2; number <= count; number++) {
        bool wait = number > STREAM_SLOTS;

        if (wait && !spin_until(limits, &limits->area->pong, number - STREAM_SLOTS)) {
            return 0;
        }
        memcpy(limits->to_child + (size_t)(number % STREAM_SLOTS) * size, limits->mine, size);
        tell(&limits->area->ping, number);
    }
    return spin_until(limits, &limits->area->pong, count) ? tool_now_ns() - start : 0;
}

/* A stream of about `duration_ns`, in MB/s. */
static double measure_stream(struct perf_limits *limits, uint32_t size, uint64_t duration_ns)
{
    uint64_t took = send_stream(limits, size, 4 * GUESS);
    double count = 4 * GUESS * ((double)duration_ns / (double)(took > 0 ? took : 1));

    if (took == 0) {
        return NAN;
    }
    count = count < GUESS ? GUESS : count > 1e9 ? 1e9 : count;
    took = send_stream(limits, size, (uint32_t)count);
    return took > 0 ? (double)size * floor(count - 1) * 1e3 / (double)took : NAN;
}

/* ---- plain TCP ------------------------------------------------------------------------------- */

/* Messages of the calibration, whose time tells how many fill a measurement. */
static const struct {
    uint32_t first;
    double most;
} tcp_counts[] = {{GUESS, 100e6}, {4 * GUESS, 1e9}};

static struct order order_tcp(const struct perf_run *run, double count)
{
    struct order order;
    bool stream = run->test != PERF_LAT;

    memset(&order, 0, sizeof(order));
    order.play = PLAY_TCP;
    order.tcp.size = run->size;
    count = count < tcp_counts[stream].first ? tcp_counts[stream].first : count;
    order.tcp.count = (uint32_t)(count > tcp_counts[stream].most ? tcp_counts[stream].most : count);
    order.tcp.stream = stream;
    order.tcp.block = run->block;
    return order;
}

/* The ns it took in all, or 0. */
static uint64_t play_tcp(struct perf_limits *limits, const struct order *order, struct perf_hist *hist)
{
    uint64_t start = tool_now_ns();

    perf_hist_clear(hist);
    if (!write_order(limits, order)) {
        return 0;
    }
    if (order->tcp.stream) {
        return perf_tcp_stream(limits->tcp[0], limits->mine, &order->tcp);
    }
    return perf_tcp_pings(limits->tcp[0], limits->mine, &order->tcp, hist) ? tool_now_ns() - start : 0;
}

static double measure_tcp(struct perf_limits *limits, const struct perf_run *run, uint64_t duration_ns)
{
    static struct perf_hist hist;
    struct order order = order_tcp(run, 0);
    uint64_t took = limits->tcp[0] >= 0 ? play_tcp(limits, &order, &hist) : 0;

    if (took == 0 || tool_stop) {
        return NAN;
    }
    order = order_tcp(run, (double)order.tcp.count * (double)duration_ns / (double)took);
    took = play_tcp(limits, &order, &hist);
    if (took == 0) {
        return NAN;
    }
    return order.tcp.stream ? (double)run->size * order.tcp.count * 1e3 / (double)took
                            : perf_hist_at(&hist, 0.5) / 2e3;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static bool copy_once(struct perf_limits *limits, enum perf_limit which, uint32_t size)
{
    unsigned char *to = limits->mine + limits->room;

    if (which == PERF_LIMIT_VMREAD) {
        return tool_peer_read(limits->child, to, limits->mine, size);
    }
    memcpy(to, limits->mine, size);
    __asm__ volatile("" ::: "memory"); /* the copy is not to be optimised away */
    return true;
}

/* Copies between two looks at the clock: enough that the look does not count. */
static unsigned copies_of(uint32_t size)
{
    return size <= 4096 ? GUESS : size <= 65536 ? 8 : 1;
}

/* ns of one copy: the median of small batches over `duration_ns`. */
static double time_copies(struct perf_limits *limits, enum perf_limit which, uint32_t size,
                          uint64_t duration_ns)
{
    static struct perf_hist hist;
    unsigned copies = copies_of(size);
    uint64_t start = tool_now_ns();
    uint64_t last = start;

    perf_hist_clear(&hist);
    while (last - start < duration_ns && !tool_stop) {
        uint64_t now;

        for (unsigned i = 0; i < copies; i++) {
            if (!copy_once(limits, which, size)) {
                return NAN;
            }
        }
        now = tool_now_ns();
        perf_hist_add(&hist, now - last);
        last = now;
    }
    return perf_hist_at(&hist, 0.5) / copies;
}

static double measure_copies(struct perf_limits *limits, enum perf_limit which, const struct perf_run *run,
                             uint64_t duration_ns)
{
    double took = NAN;

    if (which != PERF_LIMIT_VMREAD || limits->reads_peer) {
        took = time_copies(limits, which, run->size, duration_ns);
    }
    if (isnan(took)) {
        limits->reads_peer = limits->reads_peer && which != PERF_LIMIT_VMREAD;
        return NAN;
    }
    return run->test == PERF_LAT ? took / 1e3 : (double)run->size * 1e3 / took;
}

double perf_limits_measure(struct perf_limits *limits, enum perf_limit which, const struct perf_run *run,
                           uint64_t duration_ns)
{
    if (run->test == PERF_RATE) {
        return NAN;
    }
    switch (which) {
    case PERF_LIMIT_SHM:
        return run->test == PERF_LAT ? measure_shm(limits, run->size, duration_ns)
                                     : measure_stream(limits, run->size, duration_ns);
    case PERF_LIMIT_TCP:
        return measure_tcp(limits, run, duration_ns);
    default:
        return measure_copies(limits, which, run, duration_ns);
    }
}

/* ---- start and stop -------------------------------------------------------------------------- */

static bool map_memory(struct perf_limits *limits, uint32_t largest)
{
    size_t head = (sizeof(struct area) + 4095) & ~(size_t)4095;
    void *shared;
    void *mine = NULL;

    limits->room = ((size_t)largest + 4095) & ~(size_t)4095;
    limits->mapped = head + (STREAM_SLOTS + 1) * limits->room;
    shared = mmap(NULL, limits->mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return false;
    }
    limits->area = shared;
    limits->to_child = (unsigned char *)shared + head;
    limits->to_parent = limits->to_child + STREAM_SLOTS * limits->room;
    if (posix_memalign(&mine, 4096, COPY_SLOTS * limits->room) != 0) {
        return false;
    }
    limits->mine = mine;
    memset(shared, 0, limits->mapped);
    memset(mine, 1, COPY_SLOTS * limits->room);
    return true;
}

static void close_if_open(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

static bool start_child(struct perf_limits *limits, int cpu)
{
    int channel[2];

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, channel) != 0) {
        return false;
    }
    limits->child = tool_fork();
    if (limits->child == 0) {
        close(channel[0]);
        close_if_open(limits->tcp[0]); /* its end is the other process's death */
        child_main(limits, channel[1], cpu);
    }
    close(channel[1]);
    limits->channel = channel[0];
    return limits->child > 0;
}

struct perf_limits *perf_limits_start(int cpu, uint32_t largest, unsigned kinds)
{
    struct perf_limits *limits = calloc(1, sizeof(*limits));

    if (limits == NULL) {
        return NULL;
    }
    limits->channel = -1;
    limits->child = -1;
    limits->tcp[0] = limits->tcp[1] = -1;
    limits->reads_peer = true;
    if (!map_memory(limits, largest) ||
        ((kinds & (1u << PERF_LIMIT_TCP)) != 0 && !perf_tcp_open(limits->tcp)) || !start_child(limits, cpu)) {
        tool_complain("the process for --limits or --compare does not start");
        perf_limits_stop(limits);
        return NULL;
    }
    return limits;
}

void perf_limits_stop(struct perf_limits *limits)
{
    if (limits == NULL) {
        return;
    }
    if (limits->area != NULL) {
        tell(&limits->area->stop, 1);
    }
    close_if_open(limits->channel);
    close_if_open(limits->tcp[0]);
    close_if_open(limits->tcp[1]);
    if (limits->child > 0) {
        tool_wait_child(limits->child, 2000);
    }
    if (limits->area != NULL) {
        munmap(limits->area, limits->mapped);
    }
    free(limits->mine);
    free(limits);
}
