/* SPDX-License-Identifier: MIT */
/* The members of epoll sets: adding, changing and removing them, and where each is watched. */
#include "sockets/epoll.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/lock_rank.h"
#include "base/pool.h"
#include "sockets/wait.h"

enum { FIRST_ROOM = 64 }; /* of the table of entries */

static void make_set(void *object)
{
    struct sock_epoll *set = object;
    set->file.kind = &sock_epoll_kind;
    vipl_mutex_init(&set->lock, VIPL_RANK_SOCK_EPOLL);
    vipl_mutex_init(&set->ready_lock, VIPL_RANK_SOCK_READY);
}

static struct vipl_pool sets = VIPL_POOL_INIT(sets, struct sock_epoll, link, make_set);

/* All sets of the process. */
static struct vipl_mutex all_lock = VIPL_MUTEX_INIT(VIPL_RANK_SOCK_READY);
static struct vipl_list all_sets = {&all_sets, &all_sets}; /* sock_epoll.link; guarded by all_lock */

uint64_t sock_epoll_key(void)
{
    static uint64_t key;
    uint64_t now = __atomic_load_n(&key, __ATOMIC_ACQUIRE);
    while (now == 0) {
        uint64_t none = 0;
        if (vipl_entropy(&now, sizeof(now)) != 0 || now == 0) {
            now = vipl_now_ns() * UINT64_C(0x9E3779B97F4A7C15) | 1;
        }
        if (!__atomic_compare_exchange_n(&key, &none, now, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            now = none;
        }
    }
    return now;
}

struct sock_epoll *sock_epoll_of(int fd)
{
    return (struct sock_epoll *)(void *)sock_file_of_kind(fd, &sock_epoll_kind);
}

int sock_epoll_kernel(const struct sock_epoll *set)
{
    return (int)vipl_load_relaxed(&set->kernel);
}

static void clear_set(struct sock_epoll *set, int fd)
{
    vipl_store_relaxed(&set->kernel, (uint32_t)fd);
    set->generation = vipl_fork_generation();
    set->own = -1;
    set->by_fd = NULL;
    set->room = 0;
    set->watched = set->moved = set->has_own = set->has_members = set->series = 0;
    set->nic = set->joins = NULL;
    set->ready_count = set->sleepers = 0;
    set->is_watched = set->is_signalled = false;
    vipl_list_init(&set->handshakes);
    vipl_list_init(&set->members);
    vipl_list_init(&set->ready);
    vipl_list_init(&set->changed);
}

static struct sock_epoll *new_set(int fd)
{
    struct sock_epoll *set = vipl_pool_get(&sets);
    if (set == NULL) {
        return NULL;
    }
    vipl_list_init(&set->link);
    clear_set(set, fd);
    vipl_store_release(&set->file.refs, 1); /* pairs with sock_file_get_used() */
    vipl_mutex_lock(&all_lock);
    vipl_list_append(&all_sets, &set->link);
    vipl_mutex_unlock(&all_lock);
    return set;
}

void sock_epoll_created(int fd)
{
    struct sock_epoll *set = fd < 0 ? NULL : new_set(fd);
    if (set != NULL) { /* else the set is the kernel's alone, and takes no moved connections */
        (void)sock_table_set(fd, &set->file);
        sock_file_put(&set->file);
    }
}

bool sock_epoll_is_known(int fd)
{
    const struct sock_file *file = sock_file_peek(fd);
    return file != NULL && file->kind == &sock_epoll_kind;
}

/* --- notifications: with the lock of a stream or a connection held --- */

/* Which set the thread is driving: what it takes for that set it looks at itself. */
static _Thread_local const struct sock_epoll *driven VIPL_FAST_THREAD_LOCAL;

void sock_epoll_drive(const struct sock_epoll *set)
{
    driven = set;
}

void sock_epoll_signal_locked(struct sock_epoll *set)
{
    if (!set->is_signalled && vipl_load_acquire(&set->has_own) != 0) { /* pairs with make_own() */
        set->is_signalled = true;
        vipl_waker_signal(&set->waker);
    }
}

static void wake_others_locked(struct sock_epoll *set)
{
    if (set->is_watched || (set->sleepers > 0 && driven != set)) {
        sock_epoll_signal_locked(set);
    }
}

void sock_epoll_mark_ready(struct sock_entry *entry)
{
    struct sock_epoll *set = entry->set;
    vipl_mutex_lock(&set->ready_lock);
    if (vipl_list_empty(&entry->ready_link)) {
        vipl_list_append(&set->ready, &entry->ready_link);
        set->ready_count++;
    }
    wake_others_locked(set);
    vipl_mutex_unlock(&set->ready_lock);
}

static void stream_has_news(struct vipl_stream_watch *watch)
{
    sock_epoll_mark_ready(VIPL_CONTAINER(watch, struct sock_entry, watch));
}

static void connection_has_changed(struct sock_hook *hook)
{
    struct sock_entry *entry = VIPL_CONTAINER(hook, struct sock_entry, hook);
    struct sock_epoll *set = entry->set;
    vipl_mutex_lock(&set->ready_lock);
    if (vipl_list_empty(&entry->changed_link)) {
        vipl_list_append(&set->changed, &entry->changed_link);
    }
    wake_others_locked(set);
    vipl_mutex_unlock(&set->ready_lock);
}

/* --- the library's set --- */

static int make_own(struct sock_epoll *set)
{
    struct epoll_event waker = {.events = EPOLLIN, .data.u64 = 0};
    struct epoll_event own = {.events = EPOLLIN, .data.u64 = sock_epoll_key()};
    struct vipl_pollset pollset;
    if (set->own >= 0) {
        return 0;
    }
    int error = vipl_pollset_open(&pollset);
    if (error != 0) {
        return error;
    }
    error = vipl_waker_open(&set->waker);
    if (error == 0) {
        if (epoll_ctl(pollset.fd, EPOLL_CTL_ADD, set->waker.fd, &waker) != 0 ||
            epoll_ctl(sock_epoll_kernel(set), EPOLL_CTL_ADD, pollset.fd, &own) != 0) {
            error = errno;
            vipl_waker_close(&set->waker);
        }
    }
    if (error != 0) {
        vipl_pollset_close(&pollset);
        return error;
    }
    set->own = pollset.fd;
    vipl_store_release(&set->has_own, 1);
    return 0;
}

static uint64_t key_of(const struct sock_entry *entry)
{
    return (uint64_t)entry->serial << 32 | (uint32_t)entry->fd;
}

struct sock_entry *sock_epoll_entry_locked(struct sock_epoll *set, uint64_t key)
{
    unsigned fd = (unsigned)(key & 0xFFFFFFFFu);
    struct sock_entry *entry = fd < set->room ? set->by_fd[fd] : NULL;
    while (entry != NULL && key_of(entry) != key) {
        entry = entry->next;
    }
    return entry;
}

void sock_epoll_expect_locked(struct sock_entry *entry, short events)
{
    struct epoll_event event = {.events = (uint32_t)(uint16_t)events | EPOLLONESHOT,
                                .data.u64 = key_of(entry)};
    (void)epoll_ctl(entry->set->own, EPOLL_CTL_MOD, entry->fd, &event); /* or the descriptor is closed */
}

/* --- where an entry is watched --- */

struct sock_conn *sock_epoll_conn(const struct sock_entry *entry)
{
    return entry->file != NULL && entry->file->kind == &sock_conn_kind
               ? VIPL_CONTAINER(entry->file, struct sock_conn, file)
               : NULL;
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
    struct sock_conn *conn = sock_epoll_conn(entry);
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

static void leave_kernel(struct sock_entry *entry)
{
    if (entry->place == SOCK_IN_HANDSHAKE) {
        (void)epoll_ctl(entry->set->own, EPOLL_CTL_DEL, entry->fd, NULL); /* or it is closed */
    } else if (entry->place == SOCK_IN_KERNEL) {
        (void)epoll_ctl(sock_epoll_kernel(entry->set), EPOLL_CTL_DEL, entry->fd, NULL);
    }
}

static int enter_kernel(struct sock_entry *entry)
{
    struct epoll_event event = {.events = entry->disarmed ? 0 : entry->events, .data = entry->data};
    entry->place = SOCK_IN_KERNEL;
    return epoll_ctl(sock_epoll_kernel(entry->set), EPOLL_CTL_ADD, entry->fd, &event) == 0 ? 0 : errno;
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
            sock_device_drive(nic);
        }
        if (vipl_fetch_add(&entry->set->moved, 1) == 0) {
            vipl_mutex_lock(&entry->set->ready_lock);
            wake_others_locked(entry->set); /* a thread that sleeps has to drive the device */
            vipl_mutex_unlock(&entry->set->ready_lock);
        }
    }
    sock_epoll_mark_ready(entry);
}

static struct sock_entry *find_entry(struct sock_epoll *set, int fd, const struct sock_file *file)
{
    struct sock_entry *entry = (unsigned)fd < set->room ? set->by_fd[fd] : NULL;
    while (entry != NULL && entry->file != file) {
        entry = entry->next;
    }
    return entry;
}

/* Forgets an entry that the kernel has no more, or never had. */
static void forget_entry(struct sock_entry *entry)
{
    struct sock_epoll *set = entry->set;
    struct sock_entry **at = &set->by_fd[entry->fd];
    while (*at != entry) {
        at = &(*at)->next;
    }
    *at = entry->next;
    leave_library(entry);
    if (entry->file != NULL) {
        bool is_set = entry->file->kind == &sock_epoll_kind;
        vipl_fetch_add(is_set ? &set->has_members : &set->watched, UINT32_MAX);
        sock_file_put(entry->file);
    }
    vipl_free(entry);
}

/* The connection stays with TCP: the program's set has it from now on. What the kernel's set had by
 * that number before was of an earlier file. */
static int become_kernels(struct sock_entry *entry)
{
    struct sock_file *file = entry->file;
    struct sock_entry *earlier = find_entry(entry->set, entry->fd, NULL);
    if (earlier != NULL) {
        forget_entry(earlier);
    }
    leave_library(entry);
    if (entry->place == SOCK_IN_HANDSHAKE) {
        (void)epoll_ctl(entry->set->own, EPOLL_CTL_DEL, entry->fd, NULL);
    }
    entry->file = NULL;
    vipl_fetch_add(&entry->set->watched, UINT32_MAX);
    sock_file_put(file);
    return enter_kernel(entry);
}

static enum sock_place place_for(enum sock_state state)
{
    return state == SOCK_PLAIN || state == SOCK_LISTENING ? SOCK_IN_KERNEL
           : state >= SOCK_MOVED                          ? SOCK_IN_LIBRARY
                                                          : SOCK_IN_HANDSHAKE;
}

/* Places an entry whose connection has another state, or that had another change. */
static void place_again(struct sock_entry *entry)
{
    struct sock_conn *conn = sock_epoll_conn(entry);
    enum sock_state state = sock_conn_state(conn);
    enum sock_place place = place_for(state);
    if (place == SOCK_IN_KERNEL) {
        (void)become_kernels(entry);
    } else if (place == SOCK_IN_LIBRARY) {
        vipl_list_remove(&entry->member_link);
        if (entry->place == SOCK_IN_HANDSHAKE) {
            leave_kernel(entry);
        }
        enter_library(entry, conn, state);
    } else {
        entry->again_at = 0;
    }
}

void sock_epoll_sweep_locked(struct sock_epoll *set)
{
    for (;;) {
        vipl_mutex_lock(&set->ready_lock);
        struct vipl_list *link = vipl_list_take(&set->changed);
        vipl_mutex_unlock(&set->ready_lock);
        if (link == NULL) {
            return;
        }
        place_again(VIPL_CONTAINER(link, struct sock_entry, changed_link));
    }
}

/* --- the table of entries --- */

static bool make_entry_room(struct sock_epoll *set, int fd)
{
    if ((unsigned)fd < set->room) {
        return true;
    }
    unsigned room = set->room == 0 ? FIRST_ROOM : set->room;
    while (room <= (unsigned)fd) {
        room *= 2;
    }
    struct sock_entry **by_fd = vipl_zalloc(room * sizeof(struct sock_entry *));
    if (by_fd == NULL) {
        return false;
    }
    if (set->room > 0) {
        memcpy(by_fd, set->by_fd, set->room * sizeof(struct sock_entry *));
    }
    vipl_free(set->by_fd);
    set->by_fd = by_fd;
    set->room = room;
    return true;
}

static struct sock_entry *new_entry(struct sock_epoll *set, int fd, struct sock_file *file,
                                    const struct epoll_event *event)
{
    struct sock_entry *entry = make_entry_room(set, fd) ? vipl_zalloc(sizeof(*entry)) : NULL;
    if (entry == NULL) {
        return NULL;
    }
    entry->set = set;
    entry->file = file;
    if (file != NULL) {
        sock_file_get(file);
    }
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
    entry->next = set->by_fd[fd];
    set->by_fd[fd] = entry;
    return entry;
}

/* --- epoll_ctl() --- */

/* What is recorded of a descriptor that the kernel's set has, in case it becomes a connection. */
static int control_kernels(struct sock_epoll *set, int operation, int fd, struct sock_file *file,
                           struct epoll_event *event)
{
    int rc = epoll_ctl(sock_epoll_kernel(set), operation, fd, event);
    if (rc != 0) {
        return errno;
    }
    struct sock_entry *entry = find_entry(set, fd, file);
    if (operation == EPOLL_CTL_DEL || (operation == EPOLL_CTL_ADD && entry != NULL)) {
        if (entry != NULL) { /* of an earlier file, for ADD */
            forget_entry(entry);
        }
        entry = NULL;
    }
    if (operation == EPOLL_CTL_ADD) {
        entry = new_entry(set, fd, file, event);
        if (entry != NULL && file != NULL) {
            vipl_list_append(&set->members, &entry->member_link);
            vipl_fetch_add(&set->has_members, 1);
        }
    } else if (entry != NULL) {
        entry->events = event->events;
        entry->data = event->data;
    }
    return 0;
}

static bool may_control(int operation, const struct sock_entry *entry, const struct epoll_event *event)
{
    const uint32_t exclusive =
        EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET | EPOLLEXCLUSIVE;
    if ((event->events & EPOLLEXCLUSIVE) != 0) {
        return operation == EPOLL_CTL_ADD && (event->events & ~exclusive) == 0;
    }
    return operation != EPOLL_CTL_MOD || (entry->events & EPOLLEXCLUSIVE) == 0;
}

static int add_conn(struct sock_epoll *set, int fd, struct sock_conn *conn, const struct epoll_event *event)
{
    int error = make_own(set);
    if (error != 0) {
        return error;
    }
    struct sock_entry *entry = new_entry(set, fd, &conn->file, event);
    if (entry == NULL) {
        return ENOMEM;
    }
    vipl_fetch_add(&set->watched, 1);
    sock_conn_hook(conn, &entry->hook);
    entry->hooked = true;
    enum sock_state state = sock_conn_state(conn); /* later changes are the hook's to tell */
    switch (place_for(state)) {
    case SOCK_IN_KERNEL:
        error = become_kernels(entry);
        break;
    case SOCK_IN_HANDSHAKE:
        error = enter_handshake(entry);
        vipl_mutex_lock(&set->ready_lock);
        wake_others_locked(set); /* a thread that sleeps has to look at it */
        vipl_mutex_unlock(&set->ready_lock);
        break;
    case SOCK_IN_LIBRARY:
        enter_library(entry, conn, state);
        break;
    }
    if (error != 0) {
        forget_entry(entry);
    }
    return error;
}

static void modify(struct sock_entry *entry, const struct epoll_event *event)
{
    entry->events = event->events;
    entry->data = event->data;
    entry->disarmed = false;
    entry->fresh = true;
    entry->again_at = 0;
    sock_epoll_mark_ready(entry);
}

static int control_conn(struct sock_epoll *set, int operation, int fd, struct sock_conn *conn,
                        struct epoll_event *event)
{
    struct sock_entry *entry = find_entry(set, fd, &conn->file);
    if (operation != EPOLL_CTL_ADD && operation != EPOLL_CTL_MOD && operation != EPOLL_CTL_DEL) {
        return EINVAL;
    }
    if (operation != EPOLL_CTL_DEL && event == NULL) {
        return EFAULT;
    }
    if ((entry == NULL) != (operation == EPOLL_CTL_ADD)) {
        return entry == NULL ? ENOENT : EEXIST;
    }
    if (operation != EPOLL_CTL_DEL && !may_control(operation, entry, event)) {
        return EINVAL;
    }
    if (operation == EPOLL_CTL_ADD) {
        return add_conn(set, fd, conn, event);
    }
    if (operation == EPOLL_CTL_MOD) {
        modify(entry, event);
    } else {
        leave_kernel(entry);
        forget_entry(entry);
    }
    return 0;
}

/* A set that is to be a member of another one keeps its waker signalled while entries are ready. */
static void watch_set(struct sock_file *file)
{
    struct sock_epoll *set = VIPL_CONTAINER(file, struct sock_epoll, file);
    vipl_mutex_lock(&set->ready_lock);
    set->is_watched = true;
    if (!vipl_list_empty(&set->ready)) {
        sock_epoll_signal_locked(set);
    }
    vipl_mutex_unlock(&set->ready_lock);
}

static int control_locked(struct sock_epoll *set, int operation, int fd, struct epoll_event *event)
{
    sock_epoll_sweep_locked(set);
    struct sock_file *file = sock_file_of(fd); /* under the lock: sock_epoll_adopt() takes it later */
    struct sock_conn *conn =
        file != NULL && file->kind == &sock_conn_kind ? VIPL_CONTAINER(file, struct sock_conn, file) : NULL;
    bool is_entry = conn != NULL && find_entry(set, fd, file) != NULL;
    int error;
    if (conn != NULL && (is_entry || place_for(sock_conn_state(conn)) != SOCK_IN_KERNEL)) {
        error = control_conn(set, operation, fd, conn, event);
    } else if (conn == NULL && file != NULL && file != &set->file) {
        watch_set(file);
        error = control_kernels(set, operation, fd, file, event);
    } else {
        error = control_kernels(set, operation, fd, NULL, event);
    }
    if (file != NULL) {
        sock_file_put(file);
    }
    return error;
}

int sock_epoll_ctl(int fd_of_set, int operation, int fd, struct epoll_event *event)
{
    struct sock_epoll *set = sock_epoll_of(fd_of_set);
    if (set == NULL) {
        return epoll_ctl(fd_of_set, operation, fd, event);
    }
    int cancel = vipl_cancel_off();
    vipl_mutex_lock(&set->lock);
    sock_epoll_renew_locked(set);
    int error = control_locked(set, operation, fd, event);
    vipl_mutex_unlock(&set->lock);
    sock_file_put(&set->file);
    vipl_cancel_restore(cancel);
    errno = error != 0 ? error : errno;
    return error == 0 ? 0 : -1;
}

/* --- descriptors that come and go --- */

/* Returns the set after another one, with a reference, and gives back that one's. */
static struct sock_epoll *next_set(struct sock_epoll *before)
{
    struct sock_epoll *found = NULL;
    vipl_mutex_lock(&all_lock);
    struct vipl_list *l = before == NULL ? all_sets.next : before->link.next;
    for (; found == NULL && l != &all_sets; l = l->next) {
        struct sock_epoll *set = VIPL_CONTAINER(l, struct sock_epoll, link);
        found = sock_file_get_used(&set->file) ? set : NULL;
    }
    vipl_mutex_unlock(&all_lock);
    if (before != NULL) {
        sock_file_put(&before->file);
    }
    return found;
}

static void adopt_locked(struct sock_epoll *set, int fd, struct sock_conn *conn)
{
    struct sock_entry *entry = find_entry(set, fd, NULL);
    if (entry == NULL || set->generation != vipl_fork_generation()) {
        return;
    }
    struct epoll_event event = {.events = entry->events, .data = entry->data};
    bool is_there = epoll_ctl(sock_epoll_kernel(set), EPOLL_CTL_DEL, fd, NULL) == 0;
    forget_entry(entry); /* else it was of an earlier file */
    if (is_there && add_conn(set, fd, conn, &event) != 0) {
        (void)control_kernels(set, EPOLL_CTL_ADD, fd, NULL, &event);
    }
}

void sock_epoll_adopt(int fd, struct sock_conn *conn)
{
    for (struct sock_epoll *set = next_set(NULL); set != NULL; set = next_set(set)) {
        vipl_mutex_lock(&set->lock);
        adopt_locked(set, fd, conn);
        vipl_mutex_unlock(&set->lock);
    }
}

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
        struct sock_entry *entry = find_entry(set, fd, &conn->file);
        if (entry != NULL) {
            leave_kernel(entry);
            forget_entry(entry);
        }
        vipl_mutex_unlock(&set->lock);
        sock_file_put(&set->file);
    }
}

/* --- the end of a set --- */

static void drop_entries(struct sock_epoll *set)
{
    for (unsigned i = 0; i < set->room; i++) {
        while (set->by_fd[i] != NULL) {
            forget_entry(set->by_fd[i]);
        }
    }
    vipl_free(set->by_fd);
    set->by_fd = NULL;
    set->room = 0;
}

static void set_closed(struct sock_file *file)
{
    struct sock_epoll *set = VIPL_CONTAINER(file, struct sock_epoll, file);
    vipl_mutex_lock(&set->lock);
    if (set->generation == vipl_fork_generation()) {
        drop_entries(set);
    }
    vipl_store_relaxed(&set->kernel, UINT32_MAX);
    vipl_mutex_unlock(&set->lock);
}

static void set_moved(struct sock_file *file, int fd, int other)
{
    struct sock_epoll *set = VIPL_CONTAINER(file, struct sock_epoll, file);
    vipl_mutex_lock(&set->lock);
    if (sock_epoll_kernel(set) == fd) {
        vipl_store_relaxed(&set->kernel, (uint32_t)other);
    }
    vipl_mutex_unlock(&set->lock);
}

static void set_freed(struct sock_file *file)
{
    struct sock_epoll *set = VIPL_CONTAINER(file, struct sock_epoll, file);
    if (set->own >= 0 && set->generation == vipl_fork_generation()) {
        struct vipl_pollset own = {.fd = set->own};
        vipl_store_relaxed(&set->has_own, 0);
        vipl_waker_close(&set->waker);
        vipl_pollset_close(&own);
    }
    vipl_mutex_lock(&all_lock);
    vipl_list_remove(&set->link);
    vipl_mutex_unlock(&all_lock);
    vipl_pool_put(&sets, set);
}

const struct sock_file_kind sock_epoll_kind = {set_closed, set_moved, set_freed};

/* --- fork --- */

void sock_epolls_forked(void)
{
    vipl_mutex_init(&all_lock, VIPL_RANK_SOCK_READY);
    vipl_pool_abandon(&sets);
    for (struct vipl_list *l = all_sets.next; l != &all_sets; l = l->next) {
        struct sock_epoll *set = VIPL_CONTAINER(l, struct sock_epoll, link);
        vipl_mutex_init(&set->lock, VIPL_RANK_SOCK_EPOLL);
        vipl_mutex_init(&set->ready_lock, VIPL_RANK_SOCK_READY);
    }
}

/* Makes a set of the kernel's that is this process's alone, in place of the one that it shares with
 * its parent, in which the parent's library has a member. */
void sock_epoll_renew_locked(struct sock_epoll *set)
{
    if (set->generation == vipl_fork_generation()) {
        return;
    }
    struct sock_entry **by_fd = set->by_fd;
    unsigned room = set->room;
    bool was_shared = set->own >= 0;
    int kernel = sock_epoll_kernel(set);
    int made = was_shared ? epoll_create1(0) : -1;
    if (made >= 0) {
        (void)dup3(made, kernel, (fcntl(kernel, F_GETFD) & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0);
        close(made);
    }
    clear_set(set, kernel);
    for (unsigned i = 0; i < room; i++) {
        for (struct sock_entry *entry = by_fd[i], *next; entry != NULL; entry = next) {
            struct epoll_event event = {.events = entry->disarmed ? EPOLLONESHOT : entry->events,
                                        .data = entry->data};
            next = entry->next;
            if (was_shared) {
                (void)control_locked(set, EPOLL_CTL_ADD, entry->fd, &event); /* or it is closed */
            } else {
                (void)new_entry(set, entry->fd, NULL, &event);
            }
            if (entry->file != NULL) {
                sock_file_put(entry->file);
            }
            vipl_free(entry);
        }
    }
    vipl_free(by_fd);
}
