/* SPDX-License-Identifier: MIT */
/* Two hash tables with chains by index, free lists, and the list of idle flows in the order in
 * which they became so. */
#include "devices/rnic/efe/table.h"

#include <string.h>

#include "devices/rnic/efe/path.h"
#include "devices/rnic/efe/rng.h"

static uint32_t *flow_bucket(const struct efe_state *s, uint64_t hash)
{
    return (uint32_t *)((char *)s + s->flow_hash_at) + (hash & (s->buckets - 1));
}
static uint32_t *path_bucket(const struct efe_state *s, uint64_t hash)
{
    return (uint32_t *)((char *)s + s->path_hash_at) + (hash & (s->buckets - 1));
}

/* Of a seed that peers do not know, so that they cannot choose addresses of one chain. */
static uint64_t table_hash(const struct efe_state *s, const uint8_t mac[6], uint32_t functions)
{
    uint64_t key = 0;
    for (unsigned i = 0; i < 6; i++) {
        key = key << 8 | mac[i];
    }
    uint64_t state = s->hash_seed ^ key;
    state = rnic_rng_next(&state) ^ functions;
    return rnic_rng_next(&state) >> 16;
}

static uint64_t flow_hash(const struct efe_state *s, uint16_t local_fn, const uint8_t mac[6],
                          uint16_t remote_fn)
{
    return table_hash(s, mac, (uint32_t)local_fn << 16 | remote_fn);
}

void efe_table_init(struct efe_state *s)
{
    for (uint32_t i = 0; i < s->buckets; i++) {
        *flow_bucket(s, i) = *path_bucket(s, i) = EFE_NONE;
    }
    s->flow_free = s->path_free = s->idle_first = s->idle_last = EFE_NONE;
    for (uint32_t i = s->config.flows; i-- > 0;) {
        efe_table_free(s, efe_flow(s, i));
        efe_path(s, i)->hash_next = s->path_free;
        s->path_free = i;
    }
}

/* --- Paths --- */

static uint32_t path_find(const struct efe_state *s, const uint8_t mac[6])
{
    uint32_t index = *path_bucket(s, table_hash(s, mac, 0));
    while (index != EFE_NONE && memcmp(efe_path(s, index)->mac, mac, 6) != 0) {
        index = efe_path(s, index)->hash_next;
    }
    return index;
}

/* There are as many as flows, each of which has one: one is free for a flow that is. */
static uint32_t path_join(struct efe_state *s, const uint8_t mac[6])
{
    uint32_t index = path_find(s, mac);
    if (index == EFE_NONE) {
        index = s->path_free;
        struct efe_path *path = efe_path(s, index);
        s->path_free = path->hash_next;
        efe_path_init(s, path, mac);
        uint32_t *bucket = path_bucket(s, table_hash(s, mac, 0));
        path->hash_next = *bucket;
        *bucket = index;
    }
    efe_path(s, index)->flows++;
    return index;
}

static void path_unblock(struct efe_state *s, uint32_t index)
{
    uint32_t *link = &s->blocked_first;
    while (*link != EFE_NONE && *link != index) {
        link = &efe_path(s, *link)->blocked_next;
    }
    if (*link == index) {
        *link = efe_path(s, index)->blocked_next;
    }
}

static void path_leave(struct efe_state *s, uint32_t index)
{
    struct efe_path *path = efe_path(s, index);
    if (--path->flows > 0) {
        return;
    }
    uint32_t *link = path_bucket(s, table_hash(s, path->mac, 0));
    while (*link != index) {
        link = &efe_path(s, *link)->hash_next;
    }
    *link = path->hash_next;
    path_unblock(s, index);
    efe_timer_set(s, s->config.flows + index, EFE_NEVER);
    path->hash_next = s->path_free;
    s->path_free = index;
}

/* --- Flows --- */

struct efe_flow *efe_table_find(const struct efe_state *s, uint16_t local_fn, const uint8_t remote_mac[6],
                                uint16_t remote_fn)
{
    uint32_t index = *flow_bucket(s, flow_hash(s, local_fn, remote_mac, remote_fn));
    while (index != EFE_NONE) {
        struct efe_flow *flow = efe_flow(s, index);
        if (flow->local_fn == local_fn && flow->remote_fn == remote_fn &&
            memcmp(flow->remote_mac, remote_mac, 6) == 0) {
            return flow;
        }
        index = flow->hash_next;
    }
    return NULL;
}

static uint32_t table_epoch(struct efe_state *s)
{
    uint32_t epoch = s->config.first_epoch;
    while (epoch == 0) {
        epoch = (uint32_t)(rnic_rng_next(&s->random) >> 32);
    }
    return epoch;
}

struct efe_flow *efe_table_make(struct efe_state *s, uint16_t local_fn, const uint8_t remote_mac[6],
                                uint16_t remote_fn)
{
    uint32_t index = s->flow_free;
    if (index == EFE_NONE) {
        return NULL;
    }
    struct efe_flow *flow = efe_flow(s, index);
    s->flow_free = flow->hash_next;
    memset(flow, 0, sizeof *flow);
    memcpy(flow->remote_mac, remote_mac, 6);
    flow->state = EFE_FLOW_OPEN;
    flow->local_fn = local_fn;
    flow->remote_fn = remote_fn;
    flow->idle_previous = index;
    flow->path = path_join(s, remote_mac);
    flow->epoch = table_epoch(s);
    uint32_t *bucket = flow_bucket(s, flow_hash(s, local_fn, remote_mac, remote_fn));
    flow->hash_next = *bucket;
    *bucket = index;
    return flow;
}

void efe_table_remove(struct efe_state *s, struct efe_flow *flow)
{
    uint32_t index = efe_index(s, flow);
    uint32_t *link = flow_bucket(s, flow_hash(s, flow->local_fn, flow->remote_mac, flow->remote_fn));
    while (*link != index) {
        link = &efe_flow(s, *link)->hash_next;
    }
    *link = flow->hash_next;
    efe_table_set_idle(s, flow, false);
    path_leave(s, flow->path);
}

void efe_table_free(struct efe_state *s, struct efe_flow *flow)
{
    uint32_t index = efe_index(s, flow);
    flow->state = EFE_FLOW_FREE;
    flow->hash_next = s->flow_free;
    flow->idle_previous = index;
    s->flow_free = index;
}

/* --- Idle flows --- */

static void idle_insert(struct efe_state *s, struct efe_flow *flow, uint32_t previous, uint32_t next)
{
    uint32_t index = efe_index(s, flow);
    flow->idle_previous = previous;
    flow->idle_next = next;
    *(previous == EFE_NONE ? &s->idle_first : &efe_flow(s, previous)->idle_next) = index;
    *(next == EFE_NONE ? &s->idle_last : &efe_flow(s, next)->idle_previous) = index;
}

static void idle_remove(struct efe_state *s, struct efe_flow *flow)
{
    uint32_t previous = flow->idle_previous, next = flow->idle_next;
    *(previous == EFE_NONE ? &s->idle_first : &efe_flow(s, previous)->idle_next) = next;
    *(next == EFE_NONE ? &s->idle_last : &efe_flow(s, next)->idle_previous) = previous;
    flow->idle_previous = efe_index(s, flow);
}

void efe_table_set_idle(struct efe_state *s, struct efe_flow *flow, bool idle)
{
    bool listed = flow->idle_previous != efe_index(s, flow);
    if (idle && !listed) {
        idle_insert(s, flow, s->idle_last, EFE_NONE);
    } else if (!idle && listed) {
        idle_remove(s, flow);
    }
}

void efe_table_set_useless(struct efe_state *s, struct efe_flow *flow)
{
    efe_table_set_idle(s, flow, false);
    idle_insert(s, flow, EFE_NONE, s->idle_first);
}
