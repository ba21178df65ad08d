/* SPDX-License-Identifier: MIT */
/* Names, sockets, notices, and the progress of connecting. */
#include "backends/loopback/names.h"

#include <errno.h>
#include <stdio.h>

#include "backends/loopback/calls.h"
#include "backends/loopback/control.h"
#include "backends/loopback/offers.h"
#include "backends/loopback/replies.h"
#include "backends/loopback/request.h"
#include "base/deadline.h"
#include "base/hash.h"
#include "base/log.h"
#include "os/os_atomic.h"

enum {
    NS_PER_MS = 1000000,
    SUSPEND_MS = 100,     /* until a socket is tried again for which there were no descriptors */
    NOTICE_MS = 100,      /* for a requester to answer a notice with its offers */
    MAX_EVENTS = 32,      /* of one round of progress */
    MAX_EVENTS_ALL = 4096 /* of a round that handles everything: bounds what comes meanwhile */
};

/* --- names and sockets --- */

uint64_t vipl_lo_hash_of(const struct vipl_address *address)
{
    return vipl_hash(VIPL_HASH_OF_NOTHING, address->disc, address->disc_len);
}

void vipl_lo_name_begin(struct lo_name *name, uint32_t user, char kind, uint64_t hash)
{
    name->stem = (size_t)snprintf(name->text, sizeof(name->text), "vipl/loopback/%u/%c%016llx/",
                                  (unsigned)user, kind, (unsigned long long)hash);
}

size_t vipl_lo_name_at(struct lo_name *name, unsigned place)
{
    char *end = name->text + name->stem;
    if (place >= 10) {
        *end++ = (char)('0' + place / 10);
    }
    *end++ = (char)('0' + place % 10);
    return (size_t)(end - name->text);
}

struct lo_socket *vipl_lo_socket_find(struct lo_remote *remote, char kind, uint64_t hash)
{
    for (struct vipl_list *l = remote->sockets.next; l != &remote->sockets; l = l->next) {
        struct lo_socket *s = VIPL_CONTAINER(l, struct lo_socket, link);
        if (s->kind == kind && s->hash == hash) {
            return s;
        }
    }
    return NULL;
}

uint32_t vipl_lo_own_places(uint32_t user, char kind, uint64_t hash)
{
    uint32_t places = 0;
    for (struct vipl_list *l = vipl_lo_registry.nics.next; l != &vipl_lo_registry.nics; l = l->next) {
        const struct vipl_be_nic *be = VIPL_CONTAINER(l, struct vipl_be_nic, link);
        struct lo_remote *remote = lo_remote_of(be);
        const struct lo_socket *s = remote == NULL ? NULL : vipl_lo_socket_find(remote, kind, hash);
        places |= s == NULL || s->user != user ? 0 : UINT32_C(1) << s->place;
    }
    return places;
}

static void log_once(struct lo_socket *s, const char *what, int error)
{
    if (!s->logged) {
        vipl_log_os(VIPL_LOG_ERROR, what, error);
    }
    s->logged = true;
}

static int bind_free_place(struct lo_socket *s)
{
    struct lo_name name;
    int error = EADDRINUSE;
    s->user = vipl_local_user();
    vipl_lo_name_begin(&name, s->user, s->kind, s->hash);
    for (unsigned place = 0; place < LO_PLACES && error == EADDRINUSE; place++) {
        s->place = place;
        error = vipl_local_listen(name.text, vipl_lo_name_at(&name, place), &s->source.fd, &s->lock);
    }
    return error;
}

static void unbind(const struct lo_socket *s)
{
    struct lo_name name;
    vipl_lo_name_begin(&name, s->user, s->kind, s->hash);
    vipl_local_unlisten(name.text, vipl_lo_name_at(&name, s->place), s->source.fd, s->lock);
}

static int bind_and_watch(struct lo_remote *remote, struct lo_socket *s)
{
    int error = bind_free_place(s);
    if (error == 0) {
        error = vipl_pollset_add(&remote->setup, s->source.fd, &s->source);
        if (error != 0) {
            unbind(s);
        }
    }
    return error;
}

struct lo_socket *vipl_lo_socket_open(struct lo_remote *remote, char kind, uint64_t hash)
{
    struct lo_socket *s = vipl_lo_socket_find(remote, kind, hash);
    if (s != NULL) {
        s->users++;
        return s;
    }
    s = vipl_zalloc(sizeof(*s));
    if (s == NULL) {
        return NULL;
    }
    s->source.kind = LO_SOURCE_SOCKET;
    s->kind = kind;
    s->hash = hash;
    s->users = 1;
    int error = bind_and_watch(remote, s);
    if (error != 0) {
        if (kind != 'r') { /* a pending socket is tried again and again */
            vipl_log_os(VIPL_LOG_ERROR, "listening for other processes", error);
        }
        vipl_free(s);
        return NULL;
    }
    vipl_list_append(&remote->sockets, &s->link);
    vipl_up_wake(remote->be->core); /* a sleeper may not watch the poll set yet */
    return s;
}

void vipl_lo_socket_close(struct lo_remote *remote, struct lo_socket *s)
{
    if (s == NULL || --s->users > 0) {
        return;
    }
    vipl_list_remove(&s->link);
    if (s->resume_at == 0) {
        vipl_pollset_remove(&remote->setup, s->source.fd);
    }
    unbind(s);
    vipl_free(s);
}

/* --- notices --- */

void vipl_lo_notices_send(struct lo_notices *notices, uint64_t hash, unsigned place)
{
    struct lo_notice notice = {.writer = vipl_lo_own_kind(), .place = (uint8_t)place};
    uint8_t bytes[LO_PACKET];
    struct lo_name name;
    size_t length = vipl_lo_notice_write(&notice, bytes);
    uint32_t user = vipl_local_user();
    uint32_t own = vipl_lo_own_places(user, 'r', hash);
    int fd = -1;
    vipl_lo_name_begin(&name, user, 'r', hash);
    notices->count = 0;
    for (unsigned i = 0; i < LO_PLACES; i++) {
        if ((own >> i & 1) == 0 && vipl_local_connect(name.text, vipl_lo_name_at(&name, i), &fd) == 0) {
            vipl_local_send(fd, bytes, length, NULL, 0); /* if this fails, the requester has died */
            notices->fds[notices->count++] = fd;
            fd = -1;
        }
    }
    vipl_fd_close(fd);
}

static void log_refusal(int fd)
{
    uint8_t bytes[LO_PACKET];
    struct lo_reply reply;
    size_t length = 0;
    int fds[2] = {-1, -1};
    if (vipl_local_receive(fd, bytes, sizeof(bytes), &length, fds) == 0 && length > 0 &&
        vipl_lo_reply_read(&reply, bytes, length)) {
        vipl_log(VIPL_LOG_ERROR,
                 "a requester refused our notice: its loopback has version %u or another byte order",
                 reply.code);
    }
    vipl_fd_close(fds[0]);
    vipl_fd_close(fds[1]);
}

/* Waits for a descriptor. Returns false if the time is over, or if this is a forked child. */
static bool await_readable(int fd, uint64_t deadline, uint32_t generation)
{
    int error = EINTR;
    while (error == EINTR && vipl_fork_generation() == generation) {
        int ms = vipl_ms_left(deadline);
        error = vipl_poll(&fd, 1, ms, NULL);
        error = error == EINTR && ms == 0 ? ETIMEDOUT : error;
    }
    return error == 0 && vipl_fork_generation() == generation;
}

void vipl_lo_notices_await(struct lo_notices *notices)
{
    uint32_t generation = vipl_fork_generation();
    uint64_t deadline = vipl_deadline(NOTICE_MS);
    for (unsigned i = 0; i < notices->count; i++) {
        if (await_readable(notices->fds[i], deadline, generation)) {
            log_refusal(notices->fds[i]);
        }
        if (vipl_fork_generation() != generation) {
            return; /* a child forked by a signal handler: its copies are closed */
        }
        vipl_fd_close(notices->fds[i]);
    }
}

/* --- another user --- */

/* Returns false if the socket keeps its old name. */
static bool rename_socket(struct lo_remote *remote, struct lo_socket *s)
{
    struct lo_socket former = *s;
    int error = bind_and_watch(remote, s);
    if (error != 0) {
        log_once(s, "listening as another user", error);
        s->source.fd = former.source.fd;
        s->lock = former.lock;
        s->place = former.place;
        s->user = former.user;
        return false;
    }
    if (former.resume_at == 0) {
        vipl_pollset_remove(&remote->setup, former.source.fd);
    }
    unbind(&former);
    s->resume_at = 0;
    s->logged = false;
    return true;
}

/* Renames one listener. Returns false if none needs it, or none could be renamed. */
static bool rename_one(struct lo_remote *remote, struct lo_notices *notices)
{
    uint32_t user = vipl_local_user();
    for (struct vipl_list *l = remote->sockets.next; l != &remote->sockets; l = l->next) {
        struct lo_socket *s = VIPL_CONTAINER(l, struct lo_socket, link);
        if (s->kind == 'w' && s->user != user && rename_socket(remote, s)) {
            vipl_lo_notices_send(notices, s->hash, s->place);
            return true;
        }
    }
    return false;
}

void vipl_lo_listeners_rename(struct lo_remote *remote)
{
    struct lo_notices notices;
    uint32_t generation = vipl_fork_generation();
    bool renamed = true;
    while (renamed && vipl_fork_generation() == generation) {
        vipl_mutex_lock(&vipl_lo_registry.lock);
        renamed = rename_one(remote, &notices);
        vipl_mutex_unlock(&vipl_lo_registry.lock);
        if (renamed) {
            vipl_lo_notices_await(&notices);
        }
    }
}

/* --- events and time --- */

/* Stops watching a socket whose callers cannot be accepted: it stays readable, so that no thread
 * could sleep on it. */
static void suspend_socket(struct lo_remote *remote, struct lo_socket *s)
{
    vipl_pollset_remove(&remote->setup, s->source.fd);
    s->resume_at = vipl_deadline(SUSPEND_MS);
    lo_set_timed(remote);
}

/* Watches sockets again whose time has come. Lowers *soonest to the next such time. */
static void resume_sockets(struct lo_remote *remote, uint64_t now, uint64_t *soonest)
{
    for (struct vipl_list *l = remote->sockets.next; l != &remote->sockets; l = l->next) {
        struct lo_socket *s = VIPL_CONTAINER(l, struct lo_socket, link);
        if (s->resume_at == 0) {
            continue;
        }
        if (now >= s->resume_at && vipl_pollset_add(&remote->setup, s->source.fd, &s->source) == 0) {
            s->resume_at = 0;
            continue;
        }
        s->resume_at = now >= s->resume_at ? now + (uint64_t)SUSPEND_MS * NS_PER_MS : s->resume_at;
        *soonest = s->resume_at < *soonest ? s->resume_at : *soonest;
    }
}

static void on_callers(struct lo_remote *remote, struct lo_socket *s)
{
    int fd;
    int error = 0;
    for (int i = 0; i < 64 && (error = vipl_local_accept(s->source.fd, &fd)) == 0; i++) {
        vipl_lo_incoming_begin(remote, s, fd);
        s->logged = false;
    }
    if (error != 0 && error != EAGAIN) {
        log_once(s, "taking in another process", error);
        suspend_socket(remote, s);
    }
}

static void on_setup_event(struct lo_remote *remote, struct lo_source *source)
{
    switch (source->kind) {
    case LO_SOURCE_SOCKET:
        on_callers(remote, (struct lo_socket *)(void *)source);
        break;
    case LO_SOURCE_INCOMING:
        vipl_lo_incoming_event((struct lo_incoming *)(void *)source);
        break;
    case LO_SOURCE_OFFER:
        vipl_lo_offer_event((struct lo_offer *)(void *)source);
        break;
    case LO_SOURCE_LINK:
    case LO_SOURCE_WAKER:
    case LO_SOURCE_SETUP:
        break; /* these are members of the other poll set */
    }
}

static int setup_tick(struct lo_remote *remote)
{
    uint64_t soonest = UINT64_MAX;
    if (vipl_load_relaxed(&remote->timed) == 0) {
        return -1;
    }
    uint64_t now = vipl_now_ns();
    remote->timed_again = false;
    vipl_lo_incomings_tick(remote, now, &soonest);
    vipl_lo_offers_tick(remote, now, &soonest);
    resume_sockets(remote, now, &soonest);
    if (remote->timed_again) {
        return 1;
    }
    if (soonest == UINT64_MAX) {
        vipl_store_relaxed(&remote->timed, 0);
        return -1;
    }
    return soonest <= now ? 1 : (int)((soonest - now) / NS_PER_MS) + 1;
}

/* Handles a control message. Returns false if it breaks the rules. */
static bool read_control_message(const struct lo_control *message)
{
    struct lo_connect_request request;
    struct lo_reply reply;
    if (vipl_lo_connect_request_read(&request, message->bytes, message->length)) {
        return vipl_lo_incoming_by_link(message->from, &request, message->fds);
    }
    if (!vipl_lo_reply_read(&reply, message->bytes, message->length)) {
        return false;
    }
    if (reply.type == LO_REPLY_WITHDRAWN) {
        vipl_lo_incoming_withdrawn(message->from, &reply);
    } else {
        vipl_lo_offer_answered(message->from, &reply);
    }
    return true;
}

void vipl_lo_control_read(struct lo_remote *remote)
{
    struct lo_control *message;
    while ((message = vipl_lo_control_take(remote)) != NULL) {
        if (vipl_load_relaxed(&message->from->dead) == 0 && !read_control_message(message)) {
            vipl_log(VIPL_LOG_ERROR, "process %d breaks the rules of connecting: cut",
                     message->from->peer.pid);
            lo_set_dead(message->from);
        }
        vipl_lo_control_free(message);
    }
}

static void setup_link_gone(struct lo_link *link)
{
    vipl_lo_offers_hang_up(link);
    vipl_lo_incomings_hang_up(link);
}

/* Handles control messages, at most `most` events of the sockets, and deadlines. Events are read
 * one by one, because handling one may free the object of another. */
static void progress_setup(struct lo_remote *remote, int most)
{
    struct vipl_ready ready;
    vipl_mutex_lock(&vipl_lo_registry.lock);
    vipl_lo_control_read(remote);
    for (int i = 0; i < most && vipl_pollset_ready(&remote->setup, &ready, 1) == 1; i++) {
        on_setup_event(remote, ready.tag);
    }
    setup_tick(remote);
    vipl_mutex_unlock(&vipl_lo_registry.lock);
}

void vipl_lo_setup_progress(struct lo_remote *remote, bool sockets)
{
    progress_setup(remote, sockets ? MAX_EVENTS : 0);
}

void vipl_lo_setup_progress_all(struct lo_remote *remote)
{
    progress_setup(remote, vipl_lo_links_read_sockets(remote) ? MAX_EVENTS_ALL : 0);
}

static void close_setup(struct lo_remote *remote)
{
    vipl_lo_incomings_close(remote);
    while (!vipl_list_empty(&remote->sockets)) {
        struct lo_socket *s = VIPL_CONTAINER(remote->sockets.next, struct lo_socket, link);
        s->users = 1;
        vipl_lo_socket_close(remote, s);
    }
    vipl_lo_claims_close(remote);
}

struct lo_remote *vipl_lo_prepare(struct vipl_be_nic *be)
{
    static const struct lo_setup connecting = {vipl_lo_setup_progress, setup_tick, close_setup,
                                               setup_link_gone};
    return vipl_lo_remote_get(be, &connecting);
}
