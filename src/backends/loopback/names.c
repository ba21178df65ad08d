/* SPDX-License-Identifier: MIT */
/*
 * Finding each other between processes: names, sockets, events and time. A discriminator hashes to a name; whoever
 * waits for it binds the first free of a few numbered sockets of that name, whoever looks for it walks all of them,
 * again and again, until its time is up. No daemon, nothing on disk, nothing left behind.
 */
#include "backends/loopback/names.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "os/os_atomic.h"

enum {
    NS_PER_MS = 1000000,
    REST_MS = 100 /* until there may be descriptors again */
};

uint8_t vipl_lo_process_uid[LO_UID];
static uint32_t probe_word; /* what a peer has to be able to read; constant once set */

struct lo_remote *vipl_lo_prepare(struct vipl_be_nic *be)
{
    static const uint8_t none[LO_UID] = {0};
    struct lo_remote *remote = vipl_lo_remote_get(be);
    if (remote != NULL && memcmp(vipl_lo_process_uid, none, LO_UID) == 0 &&
        (vipl_entropy(&probe_word, sizeof(probe_word)) != 0 ||
         vipl_entropy(vipl_lo_process_uid, sizeof(vipl_lo_process_uid)) != 0)) {
        return NULL;
    }
    return remote;
}

void vipl_lo_rendezvous_abandon(void)
{
    memset(vipl_lo_process_uid, 0, sizeof(vipl_lo_process_uid)); /* a forked child is another process */
}

uint64_t vipl_lo_in_ms(uint32_t ms)
{
    return vipl_now_ns() + (uint64_t)ms * NS_PER_MS;
}

/* --- names and sockets --- */

uint64_t vipl_lo_hash_of(const struct vipl_address *address)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (unsigned i = 0; i < address->disc_len; i++) {
        h = (h ^ address->disc[i]) * 0x100000001b3u;
    }
    return h;
}

size_t vipl_lo_name_of(char name[96], char kind, uint64_t hash, unsigned place)
{
    return (size_t)snprintf(name, 96, "vipl/loopback/%u/%c%016llx/%u", (unsigned)vipl_local_user(), kind,
                            (unsigned long long)hash, place);
}

static struct lo_listening *find_listening(struct lo_remote *remote, char kind, uint64_t hash)
{
    for (struct vipl_list *l = remote->sockets.next; l != &remote->sockets; l = l->next) {
        struct lo_listening *s = VIPL_CONTAINER(l, struct lo_listening, link);
        if (s->kind == kind && s->hash == hash) {
            return s;
        }
    }
    return NULL;
}

uint32_t vipl_lo_own_places(char kind, uint64_t hash)
{
    uint32_t places = 0;
    for (struct vipl_list *l = vipl_lo_registry.nics.next; l != &vipl_lo_registry.nics; l = l->next) {
        const struct vipl_be_nic *be = VIPL_CONTAINER(l, struct vipl_be_nic, link);
        struct lo_remote *remote = vipl_load_ptr(&be->remote);
        const struct lo_listening *s = remote == NULL ? NULL : find_listening(remote, kind, hash);
        places |= s == NULL ? 0 : UINT32_C(1) << s->place;
    }
    return places;
}

static int bind_somewhere(struct lo_listening *s)
{
    char name[96];
    int error = EADDRINUSE;
    for (unsigned place = 0; place < LO_PLACES && error == EADDRINUSE; place++) {
        s->place = place;
        error = vipl_local_listen(name, vipl_lo_name_of(name, s->kind, s->hash, place), &s->source.fd);
    }
    return error;
}

struct lo_listening *vipl_lo_open_listening(struct lo_remote *remote, char kind, uint64_t hash)
{
    struct lo_listening *s = find_listening(remote, kind, hash);
    if (s != NULL) {
        s->users++;
        return s;
    }
    s = vipl_zalloc(sizeof(*s));
    if (s == NULL) {
        return NULL;
    }
    s->source.kind = LO_SOURCE_LISTENER;
    s->kind = kind;
    s->hash = hash;
    s->users = 1;
    int error = bind_somewhere(s);
    if (error == 0) {
        error = vipl_pollset_add(&remote->set, s->source.fd, &s->source);
        if (error != 0) {
            vipl_fd_close(s->source.fd);
        }
    }
    if (error != 0) {
        vipl_log_os("listening for other processes", error);
        vipl_free(s);
        return NULL;
    }
    vipl_list_append(&remote->sockets, &s->link);
    vipl_up_wake(remote->be->core); /* a sleeper may not know the poll set yet */
    return s;
}

void vipl_lo_close_listening(struct lo_remote *remote, struct lo_listening *s)
{
    if (s == NULL || --s->users > 0) {
        return;
    }
    vipl_list_remove(&s->link);
    if (s->resume_at == 0) {
        vipl_pollset_remove(&remote->set, s->source.fd);
    } else {
        remote->resting--;
    }
    vipl_fd_close(s->source.fd);
    vipl_free(s);
}

VIP_RETURN vipl_lo_remote_listen(struct vipl_be_nic *be, const struct vipl_address *local)
{
    struct lo_remote *remote = vipl_lo_prepare(be);
    if (remote == NULL || vipl_lo_open_listening(remote, 'w', vipl_lo_hash_of(local)) == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    return VIP_SUCCESS;
}

void vipl_lo_remote_unlisten(struct vipl_be_nic *be, const struct vipl_address *local)
{
    struct lo_remote *remote = vipl_load_ptr(&be->remote);
    vipl_lo_close_listening(remote, find_listening(remote, 'w', vipl_lo_hash_of(local)));
}

/* --- tokens: a message in a socket that the processes share. Who receives it has it --- */

bool vipl_lo_token_make(int token[2])
{
    int error = vipl_local_pair(token);
    if (error != 0) {
        token[0] = token[1] = -1;
        vipl_log_os("asking other processes", error);
        return false;
    }
    vipl_lo_token_return(token);
    return true;
}

void vipl_lo_token_close(const int token[2])
{
    vipl_fd_close(token[0]);
    vipl_fd_close(token[1]);
}

/* Never blocks, whatever the descriptor is that a peer sent us. */
bool vipl_lo_token_take(int fd)
{
    char byte;
    size_t length = 0;
    int fds[2];
    if (vipl_local_receive(fd, &byte, sizeof(byte), &length, fds) != 0) {
        return false;
    }
    vipl_fd_close(fds[0]);
    vipl_fd_close(fds[1]);
    return length > 0;
}

/* Backwards through the same socket: to the requester, and to nobody else. */
void vipl_lo_token_give_back(int fd)
{
    vipl_local_send(fd, "!", 1, NULL, 0); /* a requester that has gone needs none */
}

/* As it was put in, or as somebody gave it back. */
bool vipl_lo_token_take_own(const int token[2])
{
    return vipl_lo_token_take(token[1]) || vipl_lo_token_take(token[0]);
}

void vipl_lo_token_return(const int token[2])
{
    vipl_local_send(token[0], "!", 1, NULL, 0); /* there is room: there is one */
}

/* --- reaching into each other's memory --- */

bool vipl_lo_can_reach(const struct lo_remote *remote, int pid, uint64_t address, uint32_t value)
{
    uint32_t seen = 0;
    struct vipl_iov local = {&seen, sizeof(seen)};
    struct vipl_iov there = {(void *)(uintptr_t)address, sizeof(seen)};
    if (remote->be->settings_pull == LO_PULL_OFF) {
        return false;
    }
    int error = vipl_peer_read(pid, &local, 1, &there, 1, sizeof(seen));
    if (error != 0 && remote->be->settings_pull == LO_PULL_ON) {
        vipl_log_os("VIPL_LOOPBACK_PULL=on, but the peer's memory is out of reach", error);
    }
    return error == 0 && seen == value;
}
uint32_t *vipl_lo_probe(void)
{
    return &probe_word;
}

/* --- events and time --- */

/* A socket with callers that cannot be taken in stays readable: whoever slept on it would not sleep. */
static void rest(struct lo_remote *remote, struct lo_listening *s)
{
    vipl_pollset_remove(&remote->set, s->source.fd);
    s->resume_at = vipl_lo_in_ms(REST_MS);
    remote->resting++;
}

/* Goes on with those that have rested; *soonest as in vipl_lo_calls_tick(). */
static void resume(struct lo_remote *remote, uint64_t now, uint64_t *soonest)
{
    for (struct vipl_list *l = remote->sockets.next; l != &remote->sockets && remote->resting > 0;
         l = l->next) {
        struct lo_listening *s = VIPL_CONTAINER(l, struct lo_listening, link);
        if (s->resume_at == 0) {
            continue;
        }
        if (now >= s->resume_at && vipl_pollset_add(&remote->set, s->source.fd, &s->source) == 0) {
            s->resume_at = 0;
            remote->resting--;
            continue;
        }
        s->resume_at = now >= s->resume_at ? now + (uint64_t)REST_MS * NS_PER_MS : s->resume_at;
        *soonest = s->resume_at < *soonest ? s->resume_at : *soonest;
    }
}

static void on_listener(struct lo_remote *remote, struct lo_listening *s)
{
    int fd;
    int error = 0;
    for (int i = 0; i < 64 && (error = vipl_local_accept(s->source.fd, &fd)) == 0; i++) {
        vipl_lo_call_begin(remote, fd);
        s->short_of_fds = false;
    }
    if (error != 0 && error != EAGAIN) {
        if (!s->short_of_fds) {
            vipl_log_os("taking a call from another process", error);
        }
        s->short_of_fds = true;
        rest(remote, s);
    }
}

void vipl_lo_rendezvous_event(struct lo_remote *remote, struct lo_source *source, bool hangup)
{
    switch (source->kind) {
    case LO_SOURCE_LISTENER:
        on_listener(remote, (struct lo_listening *)(void *)source);
        break;
    case LO_SOURCE_CALL:
        vipl_lo_call_event((struct lo_call *)(void *)source, hangup);
        break;
    case LO_SOURCE_WALK:
        vipl_lo_walk_event((struct lo_asking *)(void *)source);
        break;
    case LO_SOURCE_LINK:
        vipl_lo_link_event((struct lo_link *)(void *)source, hangup);
        break;
    }
}

int vipl_lo_rendezvous_tick(struct lo_remote *remote)
{
    uint64_t soonest = UINT64_MAX;
    if (vipl_list_empty(&remote->walks) && vipl_list_empty(&remote->calls) && remote->resting == 0) {
        return -1;
    }
    uint64_t now = vipl_now_ns();
    vipl_lo_calls_tick(remote, now, &soonest);
    vipl_lo_walks_tick(remote, now, &soonest);
    resume(remote, now, &soonest);
    if (soonest == UINT64_MAX) {
        return -1;
    }
    return soonest <= now ? 1 : (int)((soonest - now) / NS_PER_MS) + 1;
}

void vipl_lo_rendezvous_close(struct lo_remote *remote)
{
    while (!vipl_list_empty(&remote->calls)) {
        vipl_lo_call_end(VIPL_CONTAINER(remote->calls.next, struct lo_call, link));
    }
    while (!vipl_list_empty(&remote->sockets)) {
        struct lo_listening *s = VIPL_CONTAINER(remote->sockets.next, struct lo_listening, link);
        s->users = 1;
        vipl_lo_close_listening(remote, s);
    }
}
