/* SPDX-License-Identifier: MIT */
/*
 * The members of epoll sets, and where each is watched: by the program's set in the kernel, by the
 * library's, or by a notification.
 */
#include "sockets/epoll.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "sockets/drive.h"
#include "sockets/wait.h"

enum { FIRST_ROOM = 64 }; /* of the table of entries */

/* --- the table of entries --- */

static uint64_t key_of(const struct sock_entry *entry)
{
    return (uint64_t)entry->serial << 32 | (uint32_t)entry->fd;
}

static struct sock_epoll_row *find_row(const struct sock_epoll *set, int fd)
{
    return (unsigned)fd < set->room ? &set->rows[fd] : NULL;
}

static struct sock_entry *first_of(const struct sock_epoll *set, int fd)
{
    const struct sock_epoll_row *row = find_row(set, fd);
    return row == NULL ? NULL : row->first;
}

struct sock_entry *sock_entry_of_key(struct sock_epoll *set, uint64_t key)
{
    struct sock_entry *entry = first_of(set, (int)(uint32_t)key);
    while (entry != NULL && key_of(entry) != key) {
        entry = entry->next;
    }
    return entry;
}

struct sock_entry *sock_entry_find(struct sock_epoll *set, int fd, const struct sock_file *file)
{
    struct sock_entry *entry = first_of(set, fd);
    while (entry != NULL && entry->file != file) {
        entry = entry->next;
    }
    return entry;
}

/* Returns the row of a descriptor; NULL: there is no memory for it. */
static struct sock_epoll_row *make_row(struct sock_epoll *set, int fd)
{
    if ((unsigned)fd < set->room) {
        return &set->rows[fd];
    }
    unsigned room = set->room == 0 ? FIRST_ROOM : set->room;
    while (room <= (unsigned)fd) {
        room *= 2;
    }
    struct sock_epoll_row *rows = vipl_zalloc(room * sizeof(*rows));
    if (rows == NULL) {
        return NULL;
    }
    if (set->room > 0) {
        memcpy(rows, set->rows, set->room * sizeof(*rows));
    }
    vipl_free(set->rows);
    set->rows = rows;
    set->room = room;
    return &rows[fd];
}

/* --- descriptors that are the kernel's alone --- */

void sock_epoll_record(struct sock_epoll *set, int fd, const struct epoll_event *event)
{
    struct sock_epoll_row *row = event == NULL ? find_row(set, fd) : make_row(set, fd);
    if (row == NULL) {
        return;
    }
    row->is_recorded = event != NULL;
    if (event != NULL) {
        row->events = event->events;
        row->data = event->data;
    }
}

bool sock_epoll_recorded(const struct sock_epoll *set, int fd, struct epoll_event *event)
{
    const struct sock_epoll_row *row = find_row(set, fd);
    if (row == NULL || !row->is_recorded) {
        return false;
    }
    event->events = row->events;
    event->data = row->data;
    return true;
}

int sock_epoll_kernel_ctl(struct sock_epoll *set, int operation, int fd, struct epoll_event *event)
{
    if (epoll_ctl(sock_epoll_kernel(set), operation, fd, event) != 0) {
        return errno;
    }
    sock_epoll_record(set, fd, operation == EPOLL_CTL_DEL ? NULL : event);
    return 0;
}

/* --- entries --- */

static void stream_has_news(struct vipl_stream_watch *watch)
{
    sock_epoll_mark_ready(VIPL_CONTAINER(watch, struct sock_entry, watch));
}

static void connection_has_changed(struct sock_hook *hook)
{
    sock_epoll_mark_changed(VIPL_CONTAINER(hook, struct sock_entry, hook));
}

struct sock_entry *sock_entry_new(struct sock_epoll *set, int fd, struct sock_file *file,
                                  const struct epoll_event *event)
{
    struct sock_epoll_row *row = make_row(set, fd);
    struct sock_entry *entry = row != NULL ? vipl_zalloc(sizeof(*entry)) : NULL;
    if (entry == NULL) {
        return NULL;
    }
    entry->set = set;
    entry->file = file;
    sock_file_get(file);
    entry->fd = fd;
    entry->events = event->events;
    entry->data = event->data;
    entry->serial = ++set->serial;
    entry->fresh = true;
    vipl_list_init(&entry->member_link);
    vipl_list_init(&entry->ready_link);
    vipl_list_init(&entry->changed_link);
    vipl_list_init(&entry->watch.link);
    vipl_list_init(&entry->hook.link);
    entry->watch.notify = stream_has_news;
    entry->hook.changed = connection_has_changed;
    entry->next = row->first;
    row->first = entry;
    return entry;
}

/* --- where an entry is watched --- */

struct sock_conn *sock_entry_conn(const struct sock_entry *entry)
{
    return entry->file->kind == &sock_conn_kind ? VIPL_CONTAINER(entry->file, struct sock_conn, file) : NULL;
}

void sock_entry_expect(struct sock_entry *entry, short events)
{
    struct epoll_event event = {.events = (uint32_t)(uint16_t)events | EPOLLONESHOT,
                                .data.u64 = key_of(entry)};
    (void)epoll_ctl(entry->set->own, EPOLL_CTL_MOD, entry->fd, &event); /* or the descriptor is closed */
}

static void unwatch_stream(struct sock_entry *entry)
{
    if (entry->watched != NULL) {
        vipl_stream_remove_watch(entry->watched, &entry->watch);
        entry->watched = NULL;
        vipl_fetch_add(&entry->set->moved, UINT32_MAX);
    }
}

/* Takes the entry out of the lists, and out of what the library watches. */
static void leave_library(struct sock_entry *entry)
{
    struct sock_epoll *set = entry->set;
    struct sock_conn *conn = sock_entry_conn(entry);
    unwatch_stream(entry);
    if (entry->hooked && conn != NULL) {
        sock_conn_unhook(conn, &entry->hook);
        entry->hooked = false;
    }
    vipl_list_remove(&entry->member_link);
    vipl_mutex_lock(&set->ready_lock);
    set->ready_count -= vipl_list_empty(&entry->ready_link) ? 0 : 1;
    vipl_list_remove(&entry->ready_link);
    vipl_list_remove(&entry->changed_link);
    vipl_mutex_unlock(&set->ready_lock);
}

void sock_entry_leave_kernel(struct sock_entry *entry)
{
    if (entry->place == SOCK_IN_HANDSHAKE) {
        (void)epoll_ctl(entry->set->own, EPOLL_CTL_DEL, entry->fd, NULL); /* or it is closed */
    }
}

static int enter_handshake(struct sock_entry *entry)
{
    struct epoll_event event = {.events = EPOLLONESHOT, .data.u64 = key_of(entry)};
    entry->place = SOCK_IN_HANDSHAKE;
    entry->again_at = 0;
    entry->told = 0;
    entry->nic = NULL;
    vipl_list_append(&entry->set->handshakes, &entry->member_link);
    return epoll_ctl(entry->set->own, EPOLL_CTL_ADD, entry->fd, &event) == 0 ? 0 : errno;
}

static void enter_library(struct sock_entry *entry, struct sock_conn *conn, enum sock_state state)
{
    entry->place = SOCK_IN_LIBRARY;
    entry->fresh = true;
    if (state == SOCK_MOVED && entry->watched == NULL) {
        entry->watched = conn->stream;
        vipl_stream_add_watch(entry->watched, &entry->watch);
        struct vipl_stream_nic *nic = vipl_stream_device(entry->watched);
        if (vipl_load_relaxed(&entry->set->moved) == 0) {
            vipl_store_ptr(&entry->set->nic, nic); /* pairs with nic_of() */
        } else if (vipl_load_ptr(&entry->set->nic) != nic) {
            sock_drive(nic);
        }
        if (vipl_fetch_add(&entry->set->moved, 1) == 0) {
            sock_epoll_wake_others(entry->set); /* a thread that sleeps has to drive the device */
        }
    }
    sock_epoll_mark_ready(entry);
}

void sock_entry_forget(struct sock_entry *entry)
{
    struct sock_epoll *set = entry->set;
    struct sock_entry **at = &set->rows[entry->fd].first;
    while (*at != entry) {
        at = &(*at)->next;
    }
    *at = entry->next;
    leave_library(entry);
    bool is_set = entry->file->kind == &sock_epoll_kind;
    vipl_fetch_add(is_set ? &set->has_members : &set->watched, UINT32_MAX);
    sock_file_put(entry->file);
    vipl_free(entry);
}

void sock_entries_forget(struct sock_epoll *set)
{
    for (unsigned i = 0; i < set->room; i++) {
        while (set->rows[i].first != NULL) {
            sock_entry_forget(set->rows[i].first);
        }
    }
    vipl_free(set->rows);
    set->rows = NULL;
    set->room = 0;
}

/* The connection stays with TCP: the program's set has it from now on. The entry is forgotten. */
static int become_kernels(struct sock_entry *entry)
{
    struct sock_epoll *set = entry->set;
    struct epoll_event event = {.events = entry->events, .data = entry->data};
    int fd = entry->fd;
    sock_entry_leave_kernel(entry);
    sock_entry_forget(entry);
    return sock_epoll_kernel_ctl(set, EPOLL_CTL_ADD, fd, &event);
}

enum sock_place sock_entry_place_for(enum sock_state state)
{
    return state == SOCK_PLAIN || state == SOCK_LISTENING ? SOCK_IN_KERNEL
           : state >= SOCK_MOVED                          ? SOCK_IN_LIBRARY
                                                          : SOCK_IN_HANDSHAKE;
}

int sock_entry_rearm(struct sock_entry *entry, const struct epoll_event *event)
{
    entry->events = event->events;
    entry->data = event->data;
    entry->disarmed = false;
    entry->fresh = true;
    entry->again_at = 0;
    if (entry->place == SOCK_DISARMED) {
        return become_kernels(entry);
    }
    sock_epoll_mark_ready(entry);
    return 0;
}

int sock_entry_place(struct sock_entry *entry, struct sock_conn *conn)
{
    sock_conn_hook(conn, &entry->hook);
    entry->hooked = true;
    enum sock_state state = sock_conn_state(conn); /* later changes are the hook's to tell */
    int error = 0;
    switch (sock_entry_place_for(state)) {
    case SOCK_IN_KERNEL:
        error = become_kernels(entry);
        break;
    case SOCK_IN_HANDSHAKE:
        error = enter_handshake(entry);
        if (error != 0) {
            sock_entry_forget(entry);
        } else {
            sock_epoll_wake_others(entry->set); /* a thread that sleeps has to look at it */
        }
        break;
    case SOCK_IN_LIBRARY:
        enter_library(entry, conn, state);
        break;
    case SOCK_DISARMED: /* no new entry is */
        break;
    }
    return error;
}

/* The connection stays with TCP. The kernel would report a member without events all the same if
 * the connection is lost: one that EPOLLONESHOT has reported enters the kernel's set when the
 * program modifies it. */
static void give_to_kernel(struct sock_entry *entry)
{
    if (entry->disarmed) {
        sock_entry_leave_kernel(entry);
        vipl_list_remove(&entry->member_link);
        entry->place = SOCK_DISARMED;
        return;
    }
    int error = become_kernels(entry);
    if (error != 0) {
        vipl_log_os(VIPL_LOG_ERROR, "sockets: giving an epoll set a connection that stays with TCP", error);
    }
}

/* Places an entry whose connection has another state, or that had another change. */
static void place_again(struct sock_entry *entry)
{
    struct sock_conn *conn = sock_entry_conn(entry);
    enum sock_state state = sock_conn_state(conn);
    enum sock_place place = sock_entry_place_for(state);
    if (place == SOCK_IN_KERNEL) {
        give_to_kernel(entry);
    } else if (place == SOCK_IN_LIBRARY) {
        vipl_list_remove(&entry->member_link);
        if (entry->place == SOCK_IN_HANDSHAKE) {
            sock_entry_leave_kernel(entry);
        }
        enter_library(entry, conn, state);
    } else {
        entry->again_at = 0;
    }
}

void sock_epoll_sweep_locked(struct sock_epoll *set)
{
    while (vipl_load_relaxed(&set->watched) != 0) { /* which changes under the set's lock */
        vipl_mutex_lock(&set->ready_lock);
        struct vipl_list *link = vipl_list_take(&set->changed);
        vipl_mutex_unlock(&set->ready_lock);
        if (link == NULL) {
            return;
        }
        place_again(VIPL_CONTAINER(link, struct sock_entry, changed_link));
    }
}

/* --- a connection that is closed --- */

/* Finds a set that a connection is in, and by which descriptor. The caller owns a reference to
 * it. */
static struct sock_epoll *set_of(struct sock_conn *conn, int *fd)
{
    struct sock_epoll *found = NULL;
    vipl_mutex_lock(&conn->lock);
    for (struct vipl_list *l = conn->hooks.next; found == NULL && l != &conn->hooks; l = l->next) {
        struct sock_hook *hook = VIPL_CONTAINER(l, struct sock_hook, link);
        struct sock_entry *entry = VIPL_CONTAINER(hook, struct sock_entry, hook);
        if (hook->changed == connection_has_changed && sock_file_get_used(&entry->set->file)) {
            found = entry->set;
            *fd = entry->fd;
        }
    }
    vipl_mutex_unlock(&conn->lock);
    return found;
}

void sock_epoll_forget(struct sock_conn *conn)
{
    int fd;
    for (struct sock_epoll *set = set_of(conn, &fd); set != NULL; set = set_of(conn, &fd)) {
        vipl_mutex_lock(&set->lock);
        struct sock_entry *entry = sock_entry_find(set, fd, &conn->file);
        if (entry != NULL) {
            sock_entry_leave_kernel(entry);
            sock_entry_forget(entry);
        }
        vipl_mutex_unlock(&set->lock);
        sock_file_put(&set->file);
    }
}
