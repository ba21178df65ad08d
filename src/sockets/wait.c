/* SPDX-License-Identifier: MIT */
/*
 * poll() with moved connections among the descriptors. The kernel watches the others, and the
 * kernel's sockets of connections whose handshake is not over; the thread sleeps once, for all of
 * them. Before the first sleep it enlists with each connection, so that another thread that takes
 * what has come for one wakes it.
 */
#include "sockets/wait.h"

#include <errno.h>
#include <pthread.h>

#include "base/deadline.h"
#include "base/lock_rank.h"
#include "base/pool.h"
#include "sockets/conn.h"
#include "sockets/drive.h"
#include "sockets/epoll.h"
#include "sockets/signals.h"

enum { FEW = 16, ALWAYS = POLLERR | POLLHUP };

static _Thread_local char here; /* its address names the thread */

/* Wakes a thread that is in sock_poll(). */
struct sleeper {
    struct vipl_list link; /* in the pool: free */
    struct vipl_waker waker;
    uint32_t generation; /* of the process that opened the waker */
    const void *thread;  /* constant while in use: a thread-local address of the thread that waits */
};

/* One of the descriptors that the table knows. */
struct special {
    struct sock_file *file; /* with a reference */
    struct sleeper *sleeper;
    struct vipl_stream_watch watch;
    struct sock_hook hook;
    struct vipl_stream *watched; /* the stream that has the watch; NULL: none */
    nfds_t index;                /* of the descriptor */
    bool hooked;
};

struct waiting {
    struct pollfd *fds; /* the program's */
    nfds_t count;
    struct pollfd *kernel;    /* for the kernel: one for each of the program's, and the sleeper's */
    struct special *specials; /* in the order of the descriptors */
    nfds_t special_count;
    nfds_t kernel_count; /* the program's descriptors that the kernel answers for */
    struct sleeper *sleeper;
    struct vipl_stream_nic *nic;   /* what the thread drives; NULL: no connection is moved */
    struct vipl_stream_nic *joins; /* a device that connects a VI; NULL: none does */
    int again_ms;                  /* for a handshake; -1: no need */
    bool has_handshake;            /* which takes more than one sleep */
    struct sock_kept_signals signals;
    struct pollfd few_kernel[FEW + 1];
    struct special few_specials[FEW];
};

/* --- sleepers --- */

static struct vipl_pool sleepers = VIPL_POOL_INIT(sleepers, struct sleeper, link, NULL);

static struct sleeper *get_sleeper(void)
{
    struct sleeper *sleeper = vipl_pool_get(&sleepers);
    if (sleeper == NULL) {
        return NULL;
    }
    if (sleeper->generation != vipl_fork_generation()) {
        if (vipl_waker_open(&sleeper->waker) != 0) {
            sleeper->generation = 0;
            vipl_pool_put_first(&sleepers, sleeper);
            return NULL;
        }
        sleeper->generation = vipl_fork_generation();
    }
    sleeper->thread = &here;
    return sleeper;
}

/* Another thread has taken something: the thread that waits itself needs no wake-up. */
static void wake_sleeper(const struct special *special)
{
    if (special->sleeper->thread != &here) {
        vipl_waker_signal(&special->sleeper->waker);
    }
}

static void wake_for_stream(struct vipl_stream_watch *watch)
{
    wake_sleeper(VIPL_CONTAINER(watch, struct special, watch));
}

static void wake_for_change(struct sock_hook *hook)
{
    wake_sleeper(VIPL_CONTAINER(hook, struct special, hook));
}

/* --- the descriptors --- */

bool sock_waits_here(int fd)
{
    const struct sock_file *file = sock_file_peek(fd);
    return file != NULL && !sock_file_is_kernels(file);
}

bool sock_poll_is_own(struct pollfd *fds, nfds_t count)
{
    bool is_own = false;
    for (nfds_t i = 0; i < count && !is_own; i++) {
        is_own = sock_waits_here(fds[i].fd);
    }
    return is_own;
}

static bool allocate_waiting(struct waiting *waiting)
{
    waiting->kernel = waiting->few_kernel;
    waiting->specials = waiting->few_specials;
    if (waiting->count > FEW) {
        waiting->kernel = vipl_alloc((waiting->count + 1) * sizeof(struct pollfd));
        waiting->specials = vipl_alloc(waiting->count * sizeof(struct special));
    }
    return waiting->kernel != NULL && waiting->specials != NULL;
}

static void begin_waiting(struct waiting *waiting)
{
    for (nfds_t i = 0; i < waiting->count; i++) {
        waiting->kernel[i] = waiting->fds[i];
        waiting->kernel[i].revents = 0;
        waiting->fds[i].revents = 0;
        struct sock_file *file = sock_file_of(waiting->fds[i].fd);
        if (file != NULL) {
            struct special *special = &waiting->specials[waiting->special_count++];
            *special = (struct special){.file = file, .index = i};
            vipl_list_init(&special->watch.link);
            vipl_list_init(&special->hook.link);
            special->watch.notify = wake_for_stream;
            special->hook.changed = wake_for_change;
        }
    }
}

static struct sock_conn *conn_of_special(const struct special *special)
{
    return special->file->kind == &sock_conn_kind ? VIPL_CONTAINER(special->file, struct sock_conn, file)
                                                  : NULL;
}

static void unwatch(struct special *special)
{
    if (special->watched != NULL) {
        vipl_stream_remove_watch(special->watched, &special->watch);
        special->watched = NULL;
    }
    struct sock_conn *conn = conn_of_special(special);
    if (special->hooked && conn != NULL) {
        sock_conn_unhook(conn, &special->hook);
    } else if (special->hooked) {
        sock_epoll_end_sleep(special->file);
    }
    special->hooked = false;
}

static void end_waiting(void *arg)
{
    struct waiting *waiting = arg;
    sock_signals_let_in(&waiting->signals);
    for (nfds_t i = 0; i < waiting->special_count; i++) {
        unwatch(&waiting->specials[i]);
        sock_file_put(waiting->specials[i].file);
    }
    if (waiting->sleeper != NULL) {
        vipl_pool_put_first(&sleepers, waiting->sleeper);
    }
    if (waiting->kernel != waiting->few_kernel) {
        vipl_free(waiting->kernel);
    }
    if (waiting->specials != waiting->few_specials) {
        vipl_free(waiting->specials);
    }
}

static int sooner(int a, int b)
{
    return a < 0 ? b : b < 0 || a < b ? a : b;
}

/* --- looking --- */

/* The thread drives the first device that it meets; the others have threads of their own. */
static void drive_for(struct waiting *waiting, struct vipl_stream_nic *nic)
{
    if (waiting->nic == NULL) {
        waiting->nic = nic;
    } else if (nic != NULL && waiting->nic != nic) {
        sock_drive(nic);
    }
}

/* Writes the revents of a connection, and what the kernel is to watch for it. */
static void look_at_conn(struct waiting *waiting, struct special *special, struct sock_conn *conn)
{
    struct pollfd *fd = &waiting->fds[special->index];
    struct pollfd *kernel = &waiting->kernel[special->index];
    struct sock_now now = sock_conn_advance(conn, fd->events);
    fd->revents = 0;
    kernel->fd = -1;
    if (now.state == SOCK_PLAIN || now.state == SOCK_LISTENING) {
        kernel->fd = fd->fd;
        kernel->events = fd->events;
        waiting->kernel_count++;
        return;
    }
    fd->revents = (short)(now.ready & (fd->events | ALWAYS));
    if (now.state == SOCK_MOVED) {
        drive_for(waiting, vipl_stream_device(conn->stream));
    } else if (now.nic != NULL) {
        waiting->joins = now.nic;
    }
    waiting->has_handshake = waiting->has_handshake || now.state < SOCK_MOVED;
    if (now.state != SOCK_MOVED && now.kernel != 0) {
        kernel->fd = fd->fd;
        kernel->events = now.kernel;
    }
    if (now.again_ms >= 0 && (waiting->again_ms < 0 || now.again_ms < waiting->again_ms)) {
        waiting->again_ms = now.again_ms;
    }
}

/* The thread drives a device that connects a VI, if it drives no other. A second device does not
 * get a thread of its own for that: it is looked at now and then. */
static void drive_join(struct waiting *waiting)
{
    if (waiting->nic == NULL) {
        waiting->nic = waiting->joins;
    } else if (waiting->joins != NULL && waiting->joins != waiting->nic) {
        waiting->again_ms = sooner(waiting->again_ms, SOCK_OTHER_MS);
    }
}

/* Returns the number of the program's descriptors that are ready without the kernel's saying so. */
static int look(struct waiting *waiting)
{
    int ready = 0;
    waiting->nic = waiting->joins = NULL;
    waiting->again_ms = -1;
    waiting->kernel_count = waiting->count - waiting->special_count;
    for (nfds_t i = 0; i < waiting->special_count; i++) {
        struct special *special = &waiting->specials[i];
        struct sock_conn *conn = conn_of_special(special);
        if (conn != NULL) {
            look_at_conn(waiting, special, conn);
            ready += waiting->fds[special->index].revents != 0 ? 1 : 0;
        } else {
            drive_for(waiting, sock_epoll_trim(special->file));
            waiting->kernel_count++;
        }
    }
    drive_join(waiting);
    return ready;
}

/* Returns what the kernel says of a set once entries that are not ready have left it: while the
 * thread slept for the device, it may have taken messages without bytes of the program. */
static short look_at_set(struct sock_file *file, const struct pollfd *fd)
{
    struct pollfd now = {.fd = fd->fd, .events = fd->events};
    sock_epoll_trim(file);
    return (short)(poll(&now, 1, 0) == 1 ? now.revents : 0);
}

/* Takes over what the kernel has found. Returns the number of descriptors that are ready by that;
 * those of handshakes are not the program's to see. */
static int take_over(struct waiting *waiting)
{
    int ready = 0;
    nfds_t next = 0;
    for (nfds_t i = 0; i < waiting->count; i++) {
        bool is_special = next < waiting->special_count && waiting->specials[next].index == i;
        struct sock_file *file = is_special ? waiting->specials[next].file : NULL;
        struct sock_conn *conn = is_special ? conn_of_special(&waiting->specials[next]) : NULL;
        next += is_special ? 1 : 0;
        enum sock_state state = conn == NULL ? SOCK_PLAIN : sock_conn_state(conn);
        if (state == SOCK_PLAIN || state == SOCK_LISTENING) {
            short events = (short)(waiting->kernel[i].fd < 0 ? 0 : waiting->kernel[i].revents);
            if (events != 0 && file != NULL && conn == NULL) {
                events = look_at_set(file, &waiting->fds[i]);
            }
            waiting->fds[i].revents = (short)(events & (waiting->fds[i].events | ALWAYS | POLLNVAL));
            ready += waiting->fds[i].revents != 0 ? 1 : 0;
        }
    }
    return ready;
}

/* Asks the kernel without waiting. */
static int look_at_kernel(struct waiting *waiting)
{
    if (waiting->kernel_count == 0) {
        return 0;
    }
    if (poll(waiting->kernel, waiting->count, 0) < 0) {
        return -1;
    }
    return take_over(waiting);
}

/* --- waiting --- */

/* Has other threads wake this one. Returns false if there is no memory or descriptor for it. */
static bool watch_all(struct waiting *waiting)
{
    waiting->sleeper = get_sleeper();
    if (waiting->sleeper == NULL) {
        return false;
    }
    for (nfds_t i = 0; i < waiting->special_count; i++) {
        struct special *special = &waiting->specials[i];
        struct sock_conn *conn = conn_of_special(special);
        special->sleeper = waiting->sleeper;
        special->hooked = true;
        if (conn != NULL) {
            sock_conn_hook(conn, &special->hook);
        } else {
            sock_epoll_begin_sleep(special->file);
        }
    }
    waiting->kernel[waiting->count] = (struct pollfd){.fd = waiting->sleeper->waker.fd, .events = POLLIN};
    return true;
}

/* Connections that have been moved since the last look. */
static void watch_streams(struct waiting *waiting)
{
    for (nfds_t i = 0; i < waiting->special_count; i++) {
        struct special *special = &waiting->specials[i];
        struct sock_conn *conn = conn_of_special(special);
        if (special->watched == NULL && conn != NULL && sock_conn_state(conn) == SOCK_MOVED) {
            special->watched = conn->stream;
            vipl_stream_add_watch(special->watched, &special->watch);
        }
    }
}

static bool needs_watch(const struct waiting *waiting)
{
    for (nfds_t i = 0; i < waiting->special_count; i++) {
        const struct special *special = &waiting->specials[i];
        const struct sock_conn *conn = conn_of_special(special);
        if (special->watched == NULL && conn != NULL && sock_conn_state(conn) == SOCK_MOVED) {
            return true;
        }
    }
    return waiting->sleeper == NULL;
}

/* Sleeps. Returns the descriptors that are ready; 0: look again; -1: an error, in errno. */
static int sleep_for_all(struct waiting *waiting, int ms, const sigset_t *mask, int cancel)
{
    unsigned count = (unsigned)waiting->count + (waiting->sleeper != NULL ? 1 : 0);
    vipl_cancel_restore(cancel);
    int rc = sock_sleep(waiting->nic, waiting->kernel, count, ms, sock_signals_mask(&waiting->signals, mask));
    vipl_cancel_off();
    sock_handshakes_look();
    if (rc == VIPL_POLL_OTHERS) {
        if (waiting->sleeper != NULL && waiting->kernel[waiting->count].revents != 0) {
            vipl_waker_reset(&waiting->sleeper->waker);
        }
        return take_over(waiting);
    }
    errno = rc;
    return rc == 0 || rc == ETIMEDOUT ? 0 : -1;
}

/* The kernel has found descriptors ready in its sleep: adds those that it does not answer for. */
static int add_specials(struct waiting *waiting, int ready)
{
    for (nfds_t i = 0; i < waiting->special_count; i++) {
        struct special *special = &waiting->specials[i];
        struct sock_conn *conn = conn_of_special(special);
        if (conn != NULL && sock_conn_state(conn) != SOCK_PLAIN && sock_conn_state(conn) != SOCK_LISTENING) {
            look_at_conn(waiting, special, conn);
            ready += waiting->fds[special->index].revents != 0 ? 1 : 0;
        }
    }
    return ready;
}

static int poll_until(struct waiting *waiting, uint64_t deadline, const sigset_t *mask, int cancel)
{
    for (;;) {
        int ready = look(waiting);
        int ms = vipl_ms_left(deadline);
        if (ready > 0) {
            int more = look_at_kernel(waiting);
            return more < 0 ? -1 : ready + more;
        }
        if (ms != 0 && needs_watch(waiting)) {
            if (waiting->sleeper == NULL && !watch_all(waiting)) {
                errno = ENOMEM;
                return -1;
            }
            watch_streams(waiting);
            continue; /* what has come meanwhile has notified no watch */
        }
        if (waiting->has_handshake && ms != 0) {
            sock_signals_keep_out(&waiting->signals);
        }
        ready = sleep_for_all(waiting, sooner(ms, waiting->again_ms), mask, cancel);
        if (ready != 0) {
            return ready < 0 ? -1 : add_specials(waiting, ready);
        }
        if (ms == 0) {
            return look(waiting); /* the sleep may have taken something */
        }
        sock_signals_keep_out(&waiting->signals);
    }
}

/* Apart from sock_poll(), whose variables setjmp() in pthread_cleanup_push() would put in doubt.
 * Writes the errno value of a failure. */
static int poll_and_clean_up(struct waiting *waiting, uint64_t deadline, const sigset_t *mask, int cancel,
                             int *error)
{
    int result;
    pthread_cleanup_push(end_waiting, waiting);
    begin_waiting(waiting);
    result = poll_until(waiting, deadline, mask, cancel);
    *error = errno;
    pthread_cleanup_pop(1);
    return result;
}

int sock_poll(struct pollfd *fds, nfds_t count, uint64_t deadline, const sigset_t *mask)
{
    struct waiting waiting = {.fds = fds, .count = count};
    int cancel = vipl_cancel_off();
    int error = ENOMEM;
    int result =
        allocate_waiting(&waiting) ? poll_and_clean_up(&waiting, deadline, mask, cancel, &error) : -1;
    errno = error;
    vipl_cancel_restore(cancel);
    return result;
}
