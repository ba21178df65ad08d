/* SPDX-License-Identifier: MIT */
/*
 * The window is judged once per round, that is when a frame that was sent after the last judgement
 * has arrived. The mean round trip time of the round, less the least of late, is the time that
 * frames stand in a queue. Is it too long, the window becomes so small that the queue empties, but
 * not less than half in one round; otherwise it grows by a frame, if it was used up. The mean, and
 * not the least of the round: it is the same for a path that sends much in a round and for one that
 * sends little. That a frame is lost says nothing about queues: the window becomes smaller only if
 * very many are.
 */
#include "devices/rnic/efe/path.h"

#include <string.h>

enum {
    FRAMES_FIRST = 16, /* of the window */
    FRAMES_MIN = 2,    /* after timeouts and losses */
    PARTS_MIN = 2,     /* after delay: the pace makes less than a frame of it */
    FRAMES_MAX = 1024,
    JUDGED_FRAMES = 128, /* losses are judged over this number of frames: */
    LOST_MANY = 3,       /* more than LOST_MANY ... */
    LOST_OF = 10         /* ... of LOST_OF frames are lost by congestion */
};
#define BASE_INTERVAL (5000 * EFE_MS)
#define QUEUE_SIMULATED (200 * EFE_US)
#define QUEUE_WALL EFE_MS
#define SLACK_WALL (100 * EFE_US)
#define TAIL_MIN EFE_MS
#define TIMEOUT_MIN_SIMULATED EFE_MS
#define TIMEOUT_MIN_WALL (10 * EFE_MS)
#define TIMEOUT_MAX (100 * EFE_MS)

/* The window counts whole frames as Ethernet carries them. */
static uint32_t path_frame(const struct efe_state *s)
{
    return EFE_ETHERNET_BYTES + s->config.mtu;
}

void efe_path_init(const struct efe_state *s, struct efe_path *path, const uint8_t mac[6])
{
    memset(path, 0, sizeof *path);
    memcpy(path->mac, mac, 6);
    path->starting = true;
    path->blocked_next = path->ready_first = path->ready_last = EFE_NONE;
    path->window = FRAMES_FIRST * path_frame(s);
    path->order = path->round_end = 1;
    path->base[0] = path->base[1] = EFE_NEVER;
}

/* --- Round trips --- */

uint64_t efe_path_base(const struct efe_path *path)
{
    uint64_t base = path->base[0] < path->base[1] ? path->base[0] : path->base[1];
    return base == EFE_NEVER ? 0 : base;
}

static void path_smooth(struct efe_path *path, uint64_t rtt)
{
    if (!path->measured) {
        path->measured = true;
        path->rtt = rtt;
        path->deviation = rtt / 2;
        return;
    }
    uint64_t error = rtt > path->rtt ? rtt - path->rtt : path->rtt - rtt;
    path->deviation = (3 * path->deviation + error) / 4;
    path->rtt = (7 * path->rtt + rtt) / 8;
}

void efe_path_sample(struct efe_path *path, uint64_t now, uint64_t rtt)
{
    path_smooth(path, rtt);
    path->round_rtt += rtt;
    path->round_samples++;
    if (now >= path->base_until) {
        /* otherwise nothing came in the interval before */
        bool follows = now < path->base_until + BASE_INTERVAL;
        path->base[1] = follows ? path->base[0] : EFE_NEVER;
        path->base[0] = EFE_NEVER;
        path->base_until = now + BASE_INTERVAL;
    }
    if (rtt < path->base[0]) {
        path->base[0] = rtt;
    }
}

uint64_t efe_path_tail_time(const struct efe_path *path)
{
    return 2 * path->rtt > TAIL_MIN ? 2 * path->rtt : TAIL_MIN;
}

uint64_t efe_path_timeout_time(const struct efe_state *s, const struct efe_path *path, uint32_t backoff)
{
    uint64_t least = s->config.simulated ? TIMEOUT_MIN_SIMULATED : TIMEOUT_MIN_WALL;
    uint64_t time = path->rtt + 4 * path->deviation;
    time = time > least ? time : least;
    for (; backoff > 0 && time < TIMEOUT_MAX; backoff--) {
        time = 2 * time < TIMEOUT_MAX ? 2 * time : TIMEOUT_MAX;
    }
    return time;
}

/* --- The window --- */

static void path_set_window(const struct efe_state *s, struct efe_path *path, uint64_t window, uint64_t least)
{
    uint64_t most = (uint64_t)FRAMES_MAX * path_frame(s);
    path->window = (uint32_t)(window < least ? least : window > most ? most : window);
}

static void path_halve(const struct efe_state *s, struct efe_path *path)
{
    uint64_t least = FRAMES_MIN * path_frame(s);
    path_set_window(s, path, path->window / 2, path->window < least ? path->window : least);
}

/* A frame more, or twice as much. */
static void path_grow(const struct efe_state *s, struct efe_path *path)
{
    uint64_t window = path->window, frame = path_frame(s);
    path_set_window(s, path, window + (path->starting || window < frame ? window : frame), 0);
}

/* How much longer than the least a round trip may take. */
static uint64_t path_queue_allowed(const struct efe_state *s, uint64_t base)
{
    uint64_t least = s->config.simulated ? QUEUE_SIMULATED : QUEUE_WALL;
    return base / 2 > least ? base / 2 : least;
}

static bool path_lost_many(struct efe_path *path)
{
    uint32_t all = path->arrived + path->lost;
    if (all < JUDGED_FRAMES) {
        return false;
    }
    bool many = path->lost * LOST_OF > all * LOST_MANY;
    path->arrived = path->lost = 0;
    return many;
}

static void path_judge(const struct efe_state *s, struct efe_path *path)
{
    uint64_t base = efe_path_base(path),
             rtt = path->round_samples > 0 ? path->round_rtt / path->round_samples : 0;
    if (rtt > base + path_queue_allowed(s, base)) {
        path->starting = false;
        uint64_t window = path->window * base / rtt * 7 / 8, half = path->window / 2;
        path_set_window(s, path, window > half ? window : half, path_frame(s) / PARTS_MIN);
    } else if (path_lost_many(path)) {
        path->starting = false;
        path_halve(s, path);
    } else if (path->limited) {
        path_grow(s, path);
    }
    path->limited = false;
    path->round_rtt = path->round_samples = 0;
    path->round_end = path->order;
}

void efe_path_arrived(const struct efe_state *s, struct efe_path *path, uint64_t order)
{
    path->arrived++;
    if (order >= path->round_end) {
        path_judge(s, path);
    }
}

void efe_path_lost(struct efe_path *path)
{
    path->lost++;
}

void efe_path_timeout(const struct efe_state *s, struct efe_path *path, uint64_t now)
{
    if (now < path->cut_until) {
        return; /* flows of one path time out together: that is one event */
    }
    path->cut_until = now + (path->rtt > EFE_MS ? path->rtt : EFE_MS);
    path_halve(s, path);
    path->starting = path->window <= FRAMES_MIN * path_frame(s);
}

/* --- The pace --- */

static uint64_t path_slack(const struct efe_state *s)
{
    return s->config.simulated ? 0 : SLACK_WALL;
}

bool efe_path_may_send(const struct efe_state *s, struct efe_path *path, uint64_t now, uint32_t bytes)
{
    if (path->in_flight > 0 && path->in_flight + bytes > path->window) {
        path->limited = true;
        return false;
    }
    path->limited |= path->next_send > now;
    return path->next_send <= now + path_slack(s);
}

uint64_t efe_path_next_send(const struct efe_state *s, const struct efe_path *path)
{
    return path->next_send > path_slack(s) ? path->next_send - path_slack(s) : 0;
}

/* A window in a round trip, and a quarter more than that; twice as much at the start. */
void efe_path_sent(struct efe_path *path, uint64_t now, uint32_t bytes)
{
    uint64_t takes = bytes * path->rtt / path->window;
    takes = path->starting ? takes / 2 : takes * 4 / 5;
    path->next_send = (path->next_send > now ? path->next_send : now) + takes;
}
