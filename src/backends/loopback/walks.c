/* SPDX-License-Identifier: MIT */
/* Walks: our own search among other processes. */
#include <errno.h>
#include <string.h>

#include "backends/loopback/exports.h"
#include "backends/loopback/names.h"
#include "backends/loopback/tx.h"
#include "base/log.h"
#include "os/os_atomic.h"

enum {
    ASK_MS = 100, /* to get a first answer, before asking elsewhere */
    FIRST_RETRY_MS = 1,
    LAST_RETRY_MS = 16,
    LAST_BESIDE_MS = 100 /* the request has a place, and a program that comes back to it is as good */
};

/* --- one connection --- */

static void hang_up(struct lo_asking *asking)
{
    struct lo_walk *walk = asking->walk;
    if (asking->source.fd >= 0) {
        vipl_pollset_remove(&walk->remote->set, asking->source.fd);
        vipl_fd_close(asking->source.fd);
        asking->source.fd = -1;
    }
    if (walk->home == asking) {
        walk->home = NULL;
        walk->request->taken = false;
    }
}

/* --- the token --- */

static bool hold(struct lo_walk *walk)
{
    bool mine = walk->request->peer || walk->held > 0 || vipl_lo_token_take_own(walk->token);
    walk->held += mine ? 1 : 0;
    return mine;
}

static void let_go(struct lo_walk *walk)
{
    if (--walk->held == 0 && !walk->request->peer) {
        vipl_lo_token_return(walk->token);
    }
}

bool vipl_lo_walk_hold(const struct lo_request *request)
{
    return request->walk == NULL || hold(request->walk);
}

void vipl_lo_walk_let_go(const struct lo_request *request)
{
    if (request->walk != NULL && request->walk->held > 0) { /* else it is another walk by now */
        let_go(request->walk);
    }
}

/* Nobody is asked any more: who had the token has gone with it. */
static void renew_token(struct lo_walk *walk)
{
    if (!walk->request->peer && walk->held == 0) {
        vipl_lo_token_take(walk->token[1]);
        vipl_lo_token_take(walk->token[0]);
        vipl_lo_token_return(walk->token);
    }
}

/* Hangs up unless a program there may have the request. False: some program has it, and says so soon. */
static bool leave(struct lo_asking *asking)
{
    struct lo_walk *walk = asking->walk;
    if (asking->source.fd < 0) {
        return true;
    }
    if (!hold(walk)) {
        return false;
    }
    hang_up(asking);
    let_go(walk);
    return true;
}

/* --- places --- */

/* The one that is not the home. */
static struct lo_asking *other(struct lo_walk *walk)
{
    return walk->home == &walk->asking[0] ? &walk->asking[1] : &walk->asking[0];
}

void vipl_lo_walk_hang_up(struct lo_walk *walk)
{
    hang_up(&walk->asking[0]);
    hang_up(&walk->asking[1]);
}

bool vipl_lo_walk_asks(const struct lo_walk *walk)
{
    return walk->asking[0].source.fd >= 0 || walk->asking[1].source.fd >= 0;
}

static bool has_place(const struct lo_walk *walk)
{
    return walk->home != NULL || walk->request->conn != NULL;
}

/* Whether it looks for a place, or for a better one. */
static bool seeks(const struct lo_walk *walk)
{
    const struct lo_request *request = walk->request;
    return !request->taken && request->matched == NULL && (walk->home == NULL || walk->home_is_idle);
}

static bool say_hello(const struct lo_asking *asking)
{
    struct lo_walk *walk = asking->walk;
    struct lo_request *request = walk->request;
    uint8_t bytes[LO_PACKET];
    struct lo_hello hello = {
        .peer = request->peer,
        .beside = !request->peer && has_place(walk),
        .id = walk->id,
        .probe_address = (uint64_t)(uintptr_t)vipl_lo_probe(),
        .probe_value = *vipl_lo_probe(),
        .tag = vipl_up_vi_tag(request->vi),
        .params = request->params,
        .local = request->local,
        .remote = request->remote,
    };
    vipl_lo_hello_identify(&hello);
    memcpy(hello.process, vipl_lo_process_uid, LO_UID);
    memcpy(hello.nic, walk->remote->uid, LO_UID);
    int fds[2] = {vipl_lo_own_window(walk->remote->be), walk->token[1]};
    return vipl_local_send(asking->source.fd, bytes, vipl_lo_hello_write(&hello, bytes), fds,
                           request->peer ? 1 : 2) == 0;
}

static char kind_of(const struct lo_walk *walk)
{
    return walk->request->peer ? 'p' : 'w';
}

static void note_silence(struct lo_walk *walk, unsigned place, bool silent)
{
    uint32_t bit = UINT32_C(1) << place;
    walk->silent = silent ? walk->silent | bit : walk->silent & ~bit;
}

/* Asks at that place. False: nobody is there, or so many wait for it already that it cannot be asked. */
static bool ask(struct lo_asking *asking, uint64_t hash, unsigned place)
{
    char name[96];
    struct lo_walk *walk = asking->walk;
    size_t n = vipl_lo_name_of(name, kind_of(walk), hash, place);
    int error = vipl_local_connect(name, n, &asking->source.fd);
    note_silence(walk, place, error == EAGAIN);
    if (error != 0) {
        asking->source.fd = -1;
        return false;
    }
    asking->place = place;
    if (vipl_pollset_add(&walk->remote->set, asking->source.fd, &asking->source) != 0 || !say_hello(asking)) {
        hang_up(asking);
        return false;
    }
    return true;
}

/* --- the walk --- */

static void walk_later(struct lo_walk *walk)
{
    uint32_t last = has_place(walk) ? LAST_BESIDE_MS : LAST_RETRY_MS;
    walk->place = 0;
    walk->next_try = vipl_lo_in_ms(walk->retry_ms);
    walk->retry_ms = walk->retry_ms * 2 > last ? last : walk->retry_ms * 2;
}

/* Connects to the next place where somebody else is, and asks there. */
static void walk_on(struct lo_walk *walk)
{
    struct lo_asking *asking = other(walk);
    uint64_t hash = vipl_lo_hash_of(&walk->request->remote);
    uint32_t passed = vipl_lo_own_places(kind_of(walk), hash);
    passed |= walk->home == NULL ? 0 : UINT32_C(1) << walk->home->place;
    bool silent = asking->source.fd >= 0;
    if (!leave(asking)) {
        walk->next_try = vipl_lo_in_ms(ASK_MS);
        return;
    }
    if (silent) {
        note_silence(walk, asking->place, true);
    }
    while (walk->place < LO_PLACES) {
        unsigned place = walk->place++;
        if ((passed >> place & 1) == 0 && ask(asking, hash, place)) {
            walk->next_try = vipl_lo_in_ms(ASK_MS);
            return;
        }
    }
    walk_later(walk);
}

static void walk_anew(struct lo_walk *walk)
{
    walk->place = 0;
    walk->retry_ms = FIRST_RETRY_MS;
    walk_on(walk);
}

static struct lo_walk *walk_new(struct lo_remote *remote, struct lo_request *request)
{
    struct lo_walk *walk = vipl_zalloc(sizeof(*walk));
    if (walk == NULL || vipl_entropy(&walk->id, sizeof(walk->id)) != 0) {
        vipl_free(walk);
        return NULL;
    }
    for (unsigned i = 0; i < 2; i++) {
        walk->asking[i].source.kind = LO_SOURCE_WALK;
        walk->asking[i].source.fd = -1;
        walk->asking[i].walk = walk;
    }
    walk->token[0] = walk->token[1] = -1;
    if (!request->peer && !vipl_lo_token_make(walk->token)) {
        vipl_free(walk);
        return NULL;
    }
    walk->remote = remote;
    walk->request = request;
    vipl_list_init(&walk->link);
    return walk;
}

VIP_RETURN vipl_lo_walk_begin(struct lo_request *request)
{
    struct lo_remote *remote = vipl_lo_prepare(request->nic);
    struct lo_walk *walk = remote == NULL ? NULL : walk_new(remote, request);
    if (walk == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    if (request->peer) {
        walk->listening = vipl_lo_open_listening(remote, 'p', vipl_lo_hash_of(&request->local));
        if (walk->listening == NULL) {
            vipl_free(walk);
            return VIP_ERROR_RESOURCE;
        }
    }
    vipl_list_append(&remote->walks, &walk->link);
    vipl_store_relaxed(&remote->walk_count, remote->walk_count + 1);
    request->walk = walk;
    walk_anew(walk);
    vipl_up_wake(remote->be->core);
    return VIP_SUCCESS;
}

void vipl_lo_walk_end(struct lo_request *request)
{
    struct lo_walk *walk = request->walk;
    if (request->matched != NULL) {
        struct lo_call *call = request->matched;
        bool dead;
        if (!vipl_lo_call_is_opened(call, &dead)) {
            vipl_lo_session_forget(call->session);
        }
        vipl_lo_call_end(call);
    }
    if (walk == NULL) {
        return;
    }
    vipl_lo_walk_hang_up(walk);
    vipl_lo_token_close(walk->token);
    vipl_lo_close_listening(walk->remote, walk->listening);
    vipl_list_remove(&walk->link);
    vipl_store_relaxed(&walk->remote->walk_count, walk->remote->walk_count - 1);
    request->walk = NULL;
    vipl_free(walk);
}

bool vipl_lo_walk_is_over(const struct lo_request *request)
{
    const struct lo_walk *walk = request->walk;
    return request->matched != NULL ||
           (walk != NULL && walk->home != NULL && (request->taken || !walk->home_is_idle));
}

bool vipl_lo_walk_met_listener(const struct lo_request *request)
{
    const struct lo_walk *walk = request->walk;
    return walk != NULL && (vipl_lo_walk_asks(walk) || walk->silent != 0);
}

/* --- answers --- */

/* The link of an acceptance: one we have, or a new one over the walk's socket. */
static struct lo_link *link_of(struct lo_asking *asking, const struct lo_answer *a, int fds[2])
{
    struct lo_remote *remote = asking->walk->remote;
    if (!a->new_link) {
        return vipl_lo_link_by_id(remote, a->link);
    }
    struct lo_link *link =
        vipl_lo_link_attach(remote, asking->source.fd, fds[0], fds[1], a->link, a->slots, a->nic);
    if (link == NULL) {
        return NULL;
    }
    fds[0] = fds[1] = -1;   /* the link's now, */
    asking->source.fd = -1; /* and so is this */
    bool reach = vipl_lo_can_reach(remote, link->pid, a->probe_address, a->probe_value);
    vipl_store_relaxed(&link->can_reach, reach ? 1 : 0);
    vipl_store_relaxed(&link->peer_can_reach, a->can_reach ? 1 : 0);
    return link;
}

static void on_acceptance(struct lo_asking *asking, const struct lo_answer *a, int fds[2])
{
    struct lo_request *request = asking->walk->request;
    struct vipl_vi *vi = request->vi;
    struct lo_link *link = link_of(asking, a, fds);
    struct lo_session *session =
        link == NULL ? NULL : vipl_lo_session_open(link, vi, a->session, &a->params, a->tag, NULL);
    bool opened = false;
    if (session != NULL) {
        struct lo_message open = {
            .type = LO_OPEN,
            .session = a->session,
            .total = session->number,
            .immediate = vipl_load_relaxed(&link->can_reach),
        };
        vipl_lo_session_begin(session);
        opened = vipl_lo_link_reply(link, &open);
        if (!opened) {
            vipl_lo_session_forget(session);
        }
    }
    vipl_lo_request_end(request);
    if (opened) {
        vipl_up_connected(vi, &a->params);
    } else {
        vipl_up_connect_failed(vi, VIP_ERROR_RESOURCE);
    }
}

static void fail(struct lo_walk *walk, VIP_RETURN rc)
{
    struct vipl_vi *vi = walk->request->vi;
    vipl_lo_request_end(walk->request);
    vipl_up_connect_failed(vi, rc);
}

/* The request has no place there, or not any more. */
static void on_no(struct lo_asking *asking)
{
    struct lo_walk *walk = asking->walk;
    note_silence(walk, asking->place, false);
    bool was_home = walk->home == asking;
    hang_up(asking);
    if (!vipl_lo_walk_asks(walk)) {
        renew_token(walk);
    }
    if (!was_home) {
        walk_on(walk);
    } else if (!vipl_lo_walk_asks(walk)) {
        walk_anew(walk);
    } /* else who is asked beside it may have it */
}

/* Beside a place where nobody waits: the request moves to where somebody does. */
static void on_queued_beside(struct lo_asking *asking, bool idle)
{
    struct lo_walk *walk = asking->walk;
    if (idle) { /* somebody did when he was asked */
        walk_on(walk);
        return;
    }
    if (!hold(walk)) {
        return; /* whoever has it says so soon */
    }
    if (walk->home == NULL && !vipl_lo_request_leave(walk->request)) {
        hang_up(asking); /* somebody of this process has it by now */
        walk_later(walk);
    } else {
        if (walk->home != NULL) {
            hang_up(walk->home);
        }
        walk->home = asking;
        walk->home_is_idle = false;
    }
    let_go(walk);
}

static void on_queued(struct lo_asking *asking, bool idle)
{
    struct lo_walk *walk = asking->walk;
    if (walk->home != asking && has_place(walk)) {
        on_queued_beside(asking, idle);
        return;
    }
    bool news = walk->home != asking || walk->home_is_idle != idle;
    walk->home = asking;
    walk->home_is_idle = idle;
    if (news && idle && !walk->request->taken) {
        walk_anew(walk);
    } else if (!idle) {
        leave(other(walk));
    }
}

static void on_taken(struct lo_asking *asking)
{
    struct lo_walk *walk = asking->walk;
    walk->home = asking;
    walk->home_is_idle = false;
    walk->request->taken = true;
    vipl_lo_request_drop_place(walk->request);
    hang_up(other(walk));
}

/* False: the walk is over. */
static bool on_answer(struct lo_asking *asking, const struct lo_answer *a, int fds[2])
{
    switch (a->type) {
    case LO_ANSWER_QUEUED:
        on_queued(asking, a->code == LO_IDLE);
        break;
    case LO_ANSWER_TAKEN:
        on_taken(asking);
        break;
    case LO_ANSWER_REJECT:
        fail(asking->walk, VIP_REJECT);
        return false;
    case LO_ANSWER_DISAGREE:
        fail(asking->walk, a->code <= VIP_INTERRUPTED ? (VIP_RETURN)a->code : VIP_REJECT);
        return false;
    case LO_ANSWER_ACCEPT:
        on_acceptance(asking, a, fds);
        return false;
    case LO_ANSWER_REFUSED:
        vipl_log(VIPL_LOG_ERROR,
                 "another process refused us: its loopback has version %u or another byte order", a->code);
        on_no(asking);
        break;
    default:
        on_no(asking);
        break;
    }
    return true;
}

enum heard { HEARD_NOTHING, HEARD_SOMETHING, HEARD_THE_END };

static enum heard hear(struct lo_asking *asking)
{
    uint8_t bytes[LO_PACKET];
    struct lo_answer a;
    size_t length = 0;
    int fds[2] = {-1, -1};
    bool goes_on = true;
    int error = vipl_local_receive(asking->source.fd, bytes, sizeof(bytes), &length, fds);
    if (error == EAGAIN) {
        return HEARD_NOTHING;
    }
    if (error == 0 && length > 0 && vipl_lo_answer_read(&a, bytes, length)) {
        goes_on = on_answer(asking, &a, fds);
    } else {
        on_no(asking); /* whoever had it has gone */
    }
    vipl_fd_close(fds[0]);
    vipl_fd_close(fds[1]);
    return goes_on ? HEARD_SOMETHING : HEARD_THE_END;
}

/* What the home has to say comes first: a program may have the request. */
void vipl_lo_walk_event(struct lo_asking *asking)
{
    struct lo_walk *walk = asking->walk;
    if (walk->home == NULL || walk->home == asking || hear(walk->home) == HEARD_NOTHING) {
        hear(asking);
    }
}

bool vipl_lo_walk_leave(struct lo_request *request)
{
    struct lo_walk *walk = request->walk;
    enum heard heard = HEARD_SOMETHING;
    while (heard == HEARD_SOMETHING && walk->home != NULL) {
        heard = hear(walk->home);
    }
    if (heard == HEARD_THE_END || vipl_lo_walk_is_over(request)) {
        return false;
    }
    vipl_lo_walk_end(request);
    return true;
}

void vipl_lo_walks_tick(struct lo_remote *remote, uint64_t now, uint64_t *soonest)
{
    struct vipl_list *next;
    for (struct vipl_list *l = remote->walks.next; l != &remote->walks; l = next) {
        struct lo_walk *walk = VIPL_CONTAINER(l, struct lo_walk, link);
        next = l->next;
        if (!seeks(walk)) {
            continue;
        }
        if (now >= walk->next_try) {
            walk_on(walk);
        }
        *soonest = walk->next_try < *soonest ? walk->next_try : *soonest;
    }
}
