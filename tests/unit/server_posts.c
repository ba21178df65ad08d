/* SPDX-License-Identifier: MIT */
#include "server_posts.h"

#include <string.h>

#include "base/lock_rank.h"
#include "base/log.h"
#include "core/sink.h"
#include "os/os_atomic.h"
#include "os/os_mutex.h"
#include "server/objects.h"
#include "server/posts.h"

static struct {
    void *vi;
    uint32_t reaped; /* as core knows it */
    void (*before_look)(void *);
    void *argument;
    struct unit_posted posted;
} unit;

static bool unit_held(uint32_t kind, const void *handle, unsigned client, void **real)
{
    (void)kind;
    (void)client;
    *real = unit.vi;
    return handle == unit.vi;
}

static VIP_RETURN unit_post_send(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory)
{
    (void)vi;
    (void)memory;
    if (unit.posted.count - unit.reaped >= VIPL_SHARE_DEPTH) {
        unit.posted.refused++;
        return VIP_ERROR_RESOURCE;
    }
    unit.posted.descriptors[unit.posted.count++] = descriptor;
    return VIP_SUCCESS;
}

static void unit_taken(void *vi, bool recv, uint32_t taken)
{
    (void)vi;
    (void)recv;
    unit.reaped = taken;
}

static uint32_t unit_exchange(uint32_t *word, uint32_t value)
{
    void (*const function)(void *) = unit.before_look;
    unit.before_look = NULL;
    if (function != NULL) {
        function(unit.argument);
    }
    return vipl_exchange(word, value);
}

/* The names of what it calls, and of what it has for others, which are in the library as well. */
#define vipl_exchange unit_exchange
#define vipl_server_held unit_held
#define VipPostSend unit_post_send
#define vipl_sink_taken unit_taken
#define vipl_server_posts_start unit_start
#define vipl_server_posts_begin unit_begin
#define vipl_server_posts_end unit_end
#define vipl_server_posts_drain unit_posts_drain
#define vipl_server_posts_open unit_open
#define vipl_server_post unit_post
#define vipl_server_posts_region unit_region
#define vipl_server_posts_no_region unit_no_region
bool unit_start(struct vipl_arena *arena);
void unit_begin(unsigned client);
void unit_end(unsigned client);
void unit_open(const void *vi);
VIP_RETURN unit_post(unsigned client, void *vi, const struct vipl_call_post *post);
void unit_region(void *nic, void *address, size_t bytes, VIP_MEM_HANDLE memory);
void unit_no_region(const void *nic, VIP_MEM_HANDLE memory);
#include "server/posts.c"

void unit_posts_begin(struct vipl_arena *arena, void *vi)
{
    memset(&unit, 0, sizeof(unit));
    memset(&posts, 0, sizeof(posts));
    unit.vi = vi;
    posts.arena = arena;
    vipl_mutex_init(&posts.lock, VIPL_RANK_POSTS);
    unit_open(vi);
}

void unit_posts_client(unsigned client)
{
    unit_begin(client);
}

void unit_posts_before_look(void (*function)(void *), void *argument)
{
    unit.argument = argument;
    unit.before_look = function;
}

VIP_RETURN unit_posts_call(unsigned client, VIP_DESCRIPTOR *descriptor)
{
    struct vipl_call_post post = {.descriptor = descriptor};
    return unit_post(client, unit.vi, &post);
}

const struct unit_posted *unit_posts_made(void)
{
    return &unit.posted;
}
