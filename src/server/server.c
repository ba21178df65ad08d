/* SPDX-License-Identifier: MIT */
/*
 * The server's process. Its first thread watches the sockets of all clients, and each channel has a
 * thread of its own. When a client's socket ends, its calls are cancelled, their threads end, and
 * the last of these drops the client's references.
 */
#include "server/server.h"

#include <errno.h>
#include <string.h>

#include "base/config_check.h"
#include "base/lock_rank.h"
#include "base/log.h"
#include "os/os_atomic.h"
#include "os/os_mutex.h"
#include "server/calls.h"
#include "server/events.h"
#include "server/heap.h"
#include "server/objects.h"
#include "server/posts.h"
#include "server/rights.h"
#include "server/rings.h"
#include "share/note.h"

enum { SPINS = 2000, READY = 32, RELEASE_RETRY_MS = 100 };
/* how long a process may take to become another user, thread by thread, in nanoseconds */
#define CHANGE_NS UINT64_C(5000000000)

struct client {
    struct vipl_mutex reading; /* rank NOTES; guards receiving notes, and handling them */
    int fd;                    /* constant */
    unsigned number;           /* constant */
    /* Guarded by the server's lock: threads of its channels, and 1 for the first thread's watch. */
    uint32_t channels;
};

/* A channel's thread. */
struct worker {
    struct client *client; /* constant while `taken`, as `channel` is */
    struct vipl_channel *channel;
    struct vipl_waker *waker; /* atomic: of the thread, once it runs */
    uint32_t client_ended;    /* atomic: the client has ended, and the channel is void */
    uint32_t posting;         /* atomic: a post is under way */
    /* used by the thread alone: how many of the client's notes without a reply were read */
    uint32_t read;
    uint64_t changing_ns; /* used by the thread alone: since when `permission` is VIPL_CHANGING, or 0 */
    /* Guarded by the client's `reading`: a call that needs rights, from a process that has them, or
     * NULL and whether its process has them. */
    struct vipl_call *checked;
    enum vipl_permission permission;
    bool taken; /* guarded by the server's lock */
};

static struct {
    /* Rank SHARE; guards `taken` of workers, `channels` of clients,
     * `clients` and `client_count`. */
    struct vipl_mutex lock;
    struct vipl_arena *arena; /* constant */
    struct client *clients[VIPL_SHARE_CLIENTS];
    uint32_t client_count; /* clients whose references are not dropped yet */
    struct worker workers[VIPL_SHARE_CHANNELS];
    struct vipl_pollset sockets;
    /* The ends of clients' sockets. A client leaves it when it holds nothing that
     * other clients hold. */
    struct vipl_pollset ends;
    struct vipl_waker waker; /* signalled when a client's references are dropped */
} server;

/* --- channels --- */

/* Waits until it is the server's turn, or the client has ended. */
static enum vipl_turn await_turn(const struct worker *worker)
{
    struct vipl_channel *channel = worker->channel;
    uint32_t turn = VIPL_TURN_CLIENT;
    for (int i = 0; i < SPINS && turn == VIPL_TURN_CLIENT; i++) {
        turn = vipl_load_acquire(&channel->turn); /* pairs with the client's store */
    }
    while (turn == VIPL_TURN_CLIENT) {
        vipl_store_ordered(&channel->server_asleep, 1);
        if (vipl_load_ordered(&channel->turn) == VIPL_TURN_CLIENT) {
            vipl_futex_wait(&channel->turn, VIPL_TURN_CLIENT);
        }
        vipl_store_ordered(&channel->server_asleep, 0);
        turn = vipl_load_acquire(&channel->turn);
    }
    /* a process that has lost its socket may still write */
    if (vipl_load_ordered(&worker->client_ended) != 0) {
        return VIPL_TURN_OVER;
    }
    return (enum vipl_turn)turn;
}

static void release_number(const struct client *client)
{
    vipl_mutex_lock(&server.lock);
    server.clients[client->number] = NULL;
    server.client_count--;
    vipl_mutex_unlock(&server.lock);
}

/* Drops a client's references. That may take a while, because pending sends are finished first. */
static void release_client(void *arg)
{
    struct client *client = arg;
    /* the client's memory is not given to others meanwhile */
    while (!vipl_server_release(client->number, NULL)) {
        vipl_poll(NULL, 0, RELEASE_RETRY_MS, NULL);
    }
    release_number(client);
    vipl_fd_close(client->fd);
    vipl_free(client);
    vipl_waker_signal(&server.waker);
}

/* A channel's thread ends. The last of a client's threads drops the client's references. */
static void end_worker(struct worker *worker)
{
    struct client *client = worker->client;
    vipl_mutex_lock(&client->reading);
    vipl_free(worker->checked);
    worker->checked = NULL;
    vipl_mutex_unlock(&client->reading);
    vipl_mutex_lock(&server.lock);
    worker->taken = false;
    vipl_store_ptr((void **)&worker->waker, NULL);
    bool last = --client->channels == 0;
    vipl_mutex_unlock(&server.lock);
    if (last) {
        release_client(client);
    }
}

static bool read_note(struct client *client);

/* Reads the notes that the client sent before the call, so that a child that it forked holds what
 * the call may destroy. */
static void read_notes(struct worker *worker)
{
    uint32_t sent = vipl_load_relaxed(&worker->channel->sent);
    if (sent == worker->read) {
        return;
    }
    vipl_mutex_lock(&worker->client->reading);
    while (read_note(worker->client)) {
    }
    vipl_mutex_unlock(&worker->client->reading);
    worker->read = sent;
}

/* The result of a call that needs rights, from a process that does not have them. VIP_INTERRUPTED,
 * and the client makes the call again, while the process is becoming another user. */
static VIP_RETURN refuse_call(struct worker *worker, enum vipl_permission permission)
{
    if (permission == VIPL_CHANGING) {
        uint64_t now = vipl_now_ns();
        worker->changing_ns = worker->changing_ns == 0 ? now : worker->changing_ns;
        if (now - worker->changing_ns < CHANGE_NS) {
            vipl_poll(NULL, 0, 1, NULL);
            return VIP_INTERRUPTED;
        }
        vipl_server_rights_log_refusal(worker->client->number);
    }
    worker->changing_ns = 0;
    return VIP_ERROR_RESOURCE;
}

/* Makes the call that came through the socket, if one did, instead of that in the channel. */
static void make_checked_call(struct worker *worker, struct vipl_call *call)
{
    vipl_mutex_lock(&worker->client->reading);
    struct vipl_call *checked = worker->checked;
    enum vipl_permission permission = worker->permission;
    worker->checked = NULL;
    worker->permission = VIPL_REFUSED;
    vipl_mutex_unlock(&worker->client->reading);
    if (checked != NULL && checked->name == call->name) {
        worker->changing_ns = 0;
        memcpy(call, checked, vipl_call_bytes(checked->name));
        vipl_server_make_call(worker->client->number, call);
    } else {
        call->rc = refuse_call(worker, permission);
    }
    vipl_free(checked);
}

static void cancel_call(struct worker *worker)
{
    vipl_store_ordered(&worker->channel->cancelled, 1);
    struct vipl_waker *waker = vipl_load_ptr((void *const *)&worker->waker);
    if (waker != NULL) {
        vipl_waker_signal(waker);
    }
}

/* Ends a channel of a client that has ended. The server's lock is held. */
static void end_channel(struct worker *worker)
{
    vipl_store_ordered(&worker->client_ended, 1); /* pairs with end_stale_calls()'s load */
    vipl_exchange(&worker->channel->turn, VIPL_TURN_OVER);
    vipl_futex_wake_one(&worker->channel->turn);
    cancel_call(worker);
}

static void make_post(struct worker *worker, struct vipl_call *call)
{
    /* stored before the VI is looked up; pairs with the load of end_stale_calls() */
    vipl_store_ordered(&worker->posting, 1);
    vipl_server_make_call(worker->client->number, call);
    vipl_store_release(&worker->posting, 0);
}

/* A caller that disconnects a VI, or destroys something, may know that another process has ended.
 * After this function, that process is not a client of any object. What it was just posting is
 * posted by now or finds no VI, so it does not get into the VI's next connection. */
static void end_stale_calls(void)
{
    struct vipl_ready any;
    while (vipl_pollset_ready(&server.ends, &any, 1) > 0) {
        vipl_poll(NULL, 0, 1, NULL); /* the first thread is about to handle it in end_client() */
    }
    for (uint32_t i = 0; i < VIPL_SHARE_CHANNELS; i++) {
        const struct worker *worker = &server.workers[i];
        while (vipl_load_ordered(&worker->posting) != 0 && vipl_load_ordered(&worker->client_ended) != 0) {
            vipl_poll(NULL, 0, 1, NULL); /* a post ends soon */
        }
    }
}

static void make_call(struct worker *worker, struct vipl_call *call)
{
    uint32_t properties = vipl_calls[call->name].properties;
    /* by the clock, because nothing tells of a setuid() in a client */
    vipl_server_rights_refresh();
    read_notes(worker);
    if ((properties & VIPL_ENDS) != 0) {
        end_stale_calls();
    }
    vipl_server_posts_drain();
    if (vipl_server_needs_rights(call)) {
        make_checked_call(worker, call);
    } else if ((properties & VIPL_POSTS) != 0) {
        make_post(worker, call);
    } else {
        vipl_server_make_call(worker->client->number, call);
    }
}

/* Makes the call of the channel. Takes a copy first, because the client may write there
 * at any time. */
static void serve_channel_call(struct worker *worker)
{
    struct vipl_call *asked = &worker->channel->call;
    struct vipl_call call;
    if (!vipl_call_read(&call, asked)) {
        asked->rc = VIP_INVALID_PARAMETER;
        return;
    }
    make_call(worker, &call);
    asked->rc = call.rc;
    memcpy(&asked->a, &call.a, vipl_calls[call.name].bytes);
}

static void channel_thread(void *arg)
{
    struct worker *worker = arg;
    struct vipl_channel *channel = worker->channel;
    struct vipl_waker *waker = vipl_thread_waker();
    if (waker != NULL) {
        waker->cancel = &channel->cancelled;
        vipl_mutex_lock(&server.lock);
        vipl_store_ptr((void **)&worker->waker, waker); /* pairs with cancel_call()'s load */
        vipl_mutex_unlock(&server.lock);
        /* cancelled before there was a waker to signal */
        if (vipl_load_ordered(&channel->cancelled) != 0) {
            vipl_waker_signal(waker);
        }
    }
    while (await_turn(worker) == VIPL_TURN_SERVER) {
        serve_channel_call(worker);
        if (!vipl_compare_exchange(&channel->turn, VIPL_TURN_SERVER, VIPL_TURN_CLIENT)) {
            break;
        }
        if (vipl_load_ordered(&channel->client_asleep) != 0) {
            vipl_futex_wake_one(&channel->turn);
        }
    }
    end_worker(worker);
}

static struct worker *take_channel(struct client *client, uint32_t *number)
{
    struct worker *worker = NULL;
    vipl_mutex_lock(&server.lock);
    for (uint32_t i = 0; worker == NULL && i < VIPL_SHARE_CHANNELS; i++) {
        if (!server.workers[i].taken) {
            worker = &server.workers[i];
            worker->taken = true;
            vipl_store_ordered(&worker->client_ended, 0);
            worker->client = client;
            worker->channel = &server.arena->channels[i];
            worker->read = 0;
            worker->changing_ns = 0;
            worker->permission = VIPL_REFUSED;
            memset(worker->channel, 0, sizeof(*worker->channel));
            client->channels++;
            *number = i;
        }
    }
    vipl_mutex_unlock(&server.lock);
    return worker;
}

static int open_channel(struct client *client, uint32_t *number)
{
    struct vipl_thread thread;
    struct worker *worker = take_channel(client, number);
    if (worker == NULL) {
        return EAGAIN;
    }
    int error = vipl_thread_start(&thread, channel_thread, worker);
    if (error != 0) {
        vipl_mutex_lock(&server.lock);
        worker->taken = false;
        client->channels--;
        vipl_mutex_unlock(&server.lock);
        return error;
    }
    vipl_thread_detach(&thread);
    return 0;
}

/* --- clients --- */

static bool assign_number(struct client *client)
{
    unsigned number = 0;
    vipl_mutex_lock(&server.lock);
    while (number < VIPL_SHARE_CLIENTS && server.clients[number] != NULL) {
        number++;
    }
    if (number < VIPL_SHARE_CLIENTS) {
        client->number = number;
        vipl_store_relaxed(&server.arena->events[number].written, 0);
        vipl_store_relaxed(&server.arena->events[number].read, 0);
        server.clients[number] = client;
        server.client_count++;
    }
    vipl_mutex_unlock(&server.lock);
    return number < VIPL_SHARE_CLIENTS;
}

/* Gives a new client what its parent (NULL: none) holds, before its first note is read. */
static int admit_client(struct client *client, const struct client *parent)
{
    struct vipl_note note = {.name = VIPL_NOTE_NUMBER, .number = client->number};
    if (parent != NULL) {
        vipl_server_inherit(parent->number, client->number);
    }
    vipl_local_name_senders(client->fd);
    vipl_local_send(client->fd, &note, sizeof(note), NULL,
                    0); /* if the client has ended, the pollsets tell */
    int error = vipl_pollset_add_end(&server.ends, client->fd, client);
    error = error != 0 ? error : vipl_pollset_add(&server.sockets, client->fd, client);
    if (error != 0) {
        vipl_server_release(client->number, NULL);
        vipl_pollset_remove(&server.ends, client->fd);
    }
    return error;
}

static int new_client(int fd, const struct client *parent)
{
    struct client *client = vipl_zalloc(sizeof(*client));
    if (client == NULL) {
        return ENOMEM;
    }
    vipl_mutex_init(&client->reading, VIPL_RANK_NOTES);
    client->fd = fd;
    client->channels = 1; /* for the first thread's watch */
    int error = assign_number(client) ? 0 : EAGAIN;
    if (error == 0) {
        vipl_server_posts_begin(client->number);
        vipl_server_rights_begin(client->number, fd);
        error = admit_client(client, parent);
        if (error != 0) {
            vipl_server_rights_end(client->number);
            release_number(client);
        }
    }
    if (error != 0) {
        vipl_free(client);
    }
    return error;
}

/* Announces again what was announced to a client that has ended, and not taken. Waiting
 * processes check again. */
static void reannounce_vi(struct vipl_server_object *vi)
{
    vipl_shared_queue_reannounce(&vi->queues[0]);
    vipl_shared_queue_reannounce(&vi->queues[1]);
}

static void reannounce_cq(struct vipl_server_object *cq)
{
    vipl_shared_cq_reannounce(cq->cq);
}

/* Drops a client's references in a thread of its own, so that other clients
 * are served meanwhile. */
static void drop_in_parallel(struct client *client)
{
    struct vipl_thread thread;
    int error = vipl_thread_start(&thread, release_client, client);
    if (error == 0) {
        vipl_thread_detach(&thread);
    } else {
        vipl_log_os(VIPL_LOG_ERROR, "dropping a client's references in a thread", error);
        release_client(client);
    }
}

static void end_channels(const struct client *client)
{
    vipl_mutex_lock(&server.lock);
    for (uint32_t i = 0; i < VIPL_SHARE_CHANNELS; i++) {
        struct worker *worker = &server.workers[i];
        if (worker->taken && worker->client == client) {
            end_channel(worker);
        }
    }
    vipl_mutex_unlock(&server.lock);
}

static void end_client(struct client *client)
{
    vipl_server_forget_handlers(client->number);
    vipl_server_rights_end(client->number);
    vipl_pollset_remove(&server.sockets, client->fd);
    vipl_server_for_each(VIPL_KIND_VI, reannounce_vi);
    vipl_server_for_each(VIPL_KIND_CQ, reannounce_cq);
    vipl_server_posts_end(client->number);
    end_channels(client);
    vipl_server_leave_to_others(client->number);
    vipl_pollset_remove(&server.ends, client->fd); /* end_stale_calls() goes on now */
    vipl_mutex_lock(&server.lock);
    bool last = --client->channels == 0;
    vipl_mutex_unlock(&server.lock);
    if (last) {
        drop_in_parallel(client);
    }
}

/* --- notes --- */

/* Makes a client of the child that is about to be forked. If there is no room, the child finds the
 * end of its socket. */
static void note_fork(const struct client *parent, int fd)
{
    int error = fd < 0 ? EBADF : new_client(fd, parent);
    if (error != 0) {
        vipl_log_os(VIPL_LOG_ERROR, "a child has no shared objects: no room for it in the server", error);
        vipl_fd_close(fd);
    }
}

static void nic_ready_fd(unsigned client, const void *handle, int fds[2])
{
    void *real;
    int fd;
    if (!vipl_server_held(VIPL_KIND_NIC, handle, client, &real) ||
        VipxGetFd(VIPX_FD_CONNECT, real, &fd) != VIP_SUCCESS || vipl_fd_duplicate(fd, 0, &fds[0]) != 0) {
        fds[0] = -1;
    }
}

/* Returns duplicates, because the server's own descriptors are closed when the
 * object is destroyed. */
static void ready_fd_of(unsigned client, const struct vipl_note *note, int fds[2])
{
    if (vipl_handle_kind(note->handle) == VIPL_KIND_NIC) {
        nic_ready_fd(client, note->handle, fds);
    } else {
        vipl_server_object_ready(client, note->handle, note->number != 0, fds);
    }
}

/* Stores a call that needs rights for its channel's thread. The system has said which process sent
 * it. The rights are compared before the client can change them for this call. */
static void note_call(const struct client *client, const struct vipl_call_note *note,
                      const struct vipl_sender *sender)
{
    struct vipl_call *checked = NULL;
    enum vipl_permission permission = vipl_server_rights_allow(client->number, sender);
    if (permission == VIPL_ALLOWED) {
        checked = vipl_alloc(vipl_call_bytes(note->call.name));
    }
    if (checked != NULL) {
        memcpy(checked, &note->call, vipl_call_bytes(note->call.name));
    }
    vipl_mutex_lock(&server.lock);
    uint32_t number = note->note.number;
    struct worker *worker = number < VIPL_SHARE_CHANNELS ? &server.workers[number] : NULL;
    if (worker != NULL && worker->taken && worker->client == client) {
        struct vipl_call *former = worker->checked;
        worker->checked = checked;
        worker->permission = permission;
        checked = former;
    }
    vipl_mutex_unlock(&server.lock);
    vipl_free(checked);
}

static void note_cancel(const struct client *client, uint32_t number)
{
    vipl_mutex_lock(&server.lock);
    if (number < VIPL_SHARE_CHANNELS && server.workers[number].taken &&
        server.workers[number].client == client) {
        cancel_call(&server.workers[number]);
    }
    vipl_mutex_unlock(&server.lock);
}

static void reply_to_note(const struct client *client, const struct vipl_note *note, const int ready_fds[2])
{
    unsigned count = ready_fds[0] < 0 ? 0 : ready_fds[1] < 0 ? 1 : 2;
    vipl_local_send(client->fd, note, sizeof(*note), ready_fds,
                    count); /* if the client has ended, the pollsets tell */
}

static void handle_note(struct client *client, struct vipl_call_note *whole, const struct vipl_sender *sender,
                        int fd)
{
    struct vipl_note *note = &whole->note;
    int ready_fds[2] = {-1, -1};
    int error;
    switch (note->name) {
    case VIPL_NOTE_CHANNEL:
        error = open_channel(client, &note->number);
        if (error != 0) {
            vipl_log_os(VIPL_LOG_ERROR, "a channel of the server", error);
            note->number = UINT32_MAX;
        }
        reply_to_note(client, note, ready_fds);
        break;
    case VIPL_NOTE_FORK:
        note_fork(client, fd);
        return; /* the socket belongs to the child now */
    case VIPL_NOTE_HERE:
        break;
    case VIPL_NOTE_CALL:
        note_call(client, whole, sender);
        break;
    case VIPL_NOTE_READY_FD:
        ready_fd_of(client->number, note, ready_fds);
        reply_to_note(client, note, ready_fds);
        vipl_fd_close(ready_fds[0]);
        vipl_fd_close(ready_fds[1]);
        break;
    default:
        note_cancel(client, note->number);
        break;
    }
    vipl_fd_close(fd);
}

/* The socket of a client that ended before it had read everything returns an error first, and then
 * what the client sent. */
static int receive(const struct client *client, struct vipl_call_note *note, size_t *length, int fds[2],
                   struct vipl_sender *sender)
{
    int error = vipl_local_receive_from(client->fd, note, sizeof(*note), length, fds, sender);
    return error == ECONNRESET ? vipl_local_receive_from(client->fd, note, sizeof(*note), length, fds, sender)
                               : error;
}

static bool is_whole(const struct vipl_call_note *note, size_t length)
{
    if (note->note.name != VIPL_NOTE_CALL) {
        return length == sizeof(note->note);
    }
    return length >= offsetof(struct vipl_call_note, call.a) && note->call.name < VIPL_CALLS &&
           length == vipl_call_note_bytes(note->call.name);
}

/* Receives and handles one note. Returns false if there is none, or will be none.
 * `reading` is held. */
static bool read_note(struct client *client)
{
    struct vipl_call_note note;
    struct vipl_sender sender;
    size_t length = 0;
    note.note.name = VIPL_NOTE_NUMBER;
    int fds[2];
    if (receive(client, &note, &length, fds, &sender) != 0) {
        return false;
    }
    vipl_fd_close(fds[1]);
    if (!is_whole(&note, length)) {
        vipl_fd_close(fds[0]);
        return length != 0;
    }
    vipl_server_rights_known(client->number, &sender);
    handle_note(client, &note, &sender, fds[0]);
    return true;
}

/* Handles one note at a time, so that a client that sends many does not keep the others waiting. */
static void serve_socket(struct client *client, bool hangup)
{
    vipl_mutex_lock(&client->reading);
    bool more = read_note(client);
    vipl_mutex_unlock(&client->reading);
    if (!more && hangup) {
        end_client(client);
    }
}

static bool has_clients(void)
{
    vipl_mutex_lock(&server.lock);
    bool any = server.client_count > 0;
    vipl_mutex_unlock(&server.lock);
    return any;
}

/* --- the process --- */

void vipl_server_run(struct vipl_arena *arena, int socket)
{
    struct vipl_ready ready[READY];
    vipl_config_is_checked();
    server.arena = arena;
    vipl_mutex_init(&server.lock, VIPL_RANK_SHARE);
    vipl_server_rights_init();
    vipl_server_objects_init(arena);
    vipl_server_heap_init(&arena->heap);
    vipl_server_calls_init(arena);
    vipl_server_events_init(arena);
    if (vipl_pollset_open(&server.sockets) != 0 || vipl_pollset_open(&server.ends) != 0 ||
        vipl_waker_open(&server.waker) != 0 || !vipl_server_posts_start(arena) ||
        new_client(socket, NULL) != 0) {
        return; /* the client sees the end of its socket */
    }
    while (has_clients()) {
        int const fds[2] = {server.sockets.fd, server.waker.fd};
        vipl_poll(fds, 2, -1, NULL);
        vipl_waker_reset(&server.waker);
        unsigned count = vipl_pollset_ready(&server.sockets, ready, READY);
        for (unsigned i = 0; i < count; i++) {
            serve_socket(ready[i].tag, ready[i].hangup);
        }
    }
}
