/* SPDX-License-Identifier: MIT */
/* Waiting for the outcome of a handshake. */
#include <errno.h>
#include <poll.h>

#include "base/deadline.h"
#include "sockets/conn.h"
#include "sockets/drive.h"
#include "sockets/handshake.h"
#include "sockets/signals.h"

enum {
    BRIEF_MS = 2, /* a server's write that must not wait, for the outcome */
    OTHERS_MS = 5 /* between two looks at other connections in a handshake */
};
static const uint64_t ns_per_ms = 1000000;

/* A thread that waits for the outcome. Another thread that waits may bring its connection forward,
 * and wakes it. */
struct awaiting {
    struct sock_hook hook;
    const struct sock_conn *conn;
    struct vipl_waker *waker;
    struct pollfd fds[SOCK_LOOKED_AT + 2];
    unsigned count;
    int ms;
    struct vipl_stream_nic *nic; /* what the thread drives: the device that connects its own VI */
    struct sock_kept_signals signals;
};

static void wake_awaiting(struct sock_hook *hook)
{
    vipl_waker_signal(VIPL_CONTAINER(hook, struct awaiting, hook)->waker);
}

static void look_after(struct awaiting *awaiting, int ms)
{
    awaiting->ms = ms >= 0 && (awaiting->ms < 0 || ms < awaiting->ms) ? ms : awaiting->ms;
}

static void add_fd(struct awaiting *awaiting, struct sock_conn *conn, const struct sock_now *now)
{
    vipl_mutex_lock(&conn->lock);
    int kernel = conn->kernel;
    vipl_mutex_unlock(&conn->lock);
    awaiting->fds[awaiting->count++] = (struct pollfd){.fd = kernel, .events = now->kernel};
    look_after(awaiting, now->again_ms);
}

/* The device of another connection's VI, which nobody may drive, is looked at now and then. So are
 * all others, a few at a time: a server may have answered as many as it can, and this thread waits
 * for the next answer. */
static void advance_other(struct sock_conn *conn, void *arg)
{
    struct awaiting *awaiting = arg;
    struct sock_now now = sock_conn_advance(conn, 0);
    if (conn != awaiting->conn) {
        look_after(awaiting, OTHERS_MS);
    }
    if (!sock_state_is_over(now.state) && now.state != SOCK_HELLO_SENT) {
        now.again_ms = now.nic != awaiting->nic && now.nic != NULL ? SOCK_OTHER_MS : now.again_ms;
        add_fd(awaiting, conn, &now);
    }
}

/* Sleeps until something has happened to a connection in a handshake, or to any other one. */
static int wait_for(struct awaiting *awaiting, struct sock_conn *conn, const struct sock_now *now,
                    uint64_t deadline)
{
    awaiting->count = 0;
    awaiting->ms = vipl_ms_left(deadline);
    awaiting->nic = now->nic;
    sock_handshakes_each(advance_other, awaiting);
    add_fd(awaiting, conn, now);
    awaiting->fds[awaiting->count++] = (struct pollfd){.fd = awaiting->waker->fd, .events = POLLIN};
    int rc = sock_sleep(now->nic, awaiting->fds, awaiting->count, awaiting->ms,
                        sock_signals_mask(&awaiting->signals, NULL));
    sock_handshakes_look();
    if (rc == EINTR && (deadline != VIPL_NO_DEADLINE || !sock_signals_restart())) {
        return EINTR;
    }
    if (rc != 0 && rc != VIPL_POLL_OTHERS && rc != ETIMEDOUT && rc != EINTR) {
        return rc;
    }
    return vipl_now_ns() >= deadline ? EAGAIN : 0;
}

/* Returns true if a call for the connection need not wait any more. */
static bool is_decided(struct sock_conn *conn, const struct sock_now *now, short wanted)
{
    if (now->state == SOCK_UNKNOWN && wanted == POLLOUT && now->again_ms < 0) {
        sock_conn_give_up(conn, SOCK_WROTE_FIRST);
        return true;
    }
    return sock_state_is_over(now->state) ||
           (now->state == SOCK_STRIPPING && (wanted == POLLOUT || sock_conn_is_stopped(conn)));
}

static int await_blocking(struct awaiting *awaiting, struct sock_conn *conn, short wanted, uint64_t deadline)
{
    int error = 0;
    sock_signals_keep_out(&awaiting->signals);
    while (error == 0) {
        vipl_waker_reset(awaiting->waker); /* then looks */
        struct sock_now now = sock_conn_advance(conn, wanted);
        if (is_decided(conn, &now, wanted)) {
            break;
        }
        error = wait_for(awaiting, conn, &now, deadline);
    }
    sock_signals_let_in(&awaiting->signals);
    return error;
}

int sock_conn_await(struct sock_conn *conn, short wanted, bool blocks, uint64_t deadline)
{
    if (sock_state_is_over(sock_conn_state(conn))) {
        return 0;
    }
    struct sock_now now = sock_conn_advance(conn, wanted);
    if (is_decided(conn, &now, wanted)) {
        return 0;
    }
    if (!blocks && wanted == POLLOUT && !conn->is_client) {
        deadline = vipl_now_ns() + BRIEF_MS * ns_per_ms; /* programs expect a first write to succeed */
    } else if (!blocks) {
        return EAGAIN;
    }
    struct awaiting awaiting = {.hook.changed = wake_awaiting, .conn = conn, .waker = vipl_thread_waker()};
    if (awaiting.waker == NULL) {
        return ENOMEM;
    }
    int cancel = vipl_cancel_off();
    sock_conn_hook(conn, &awaiting.hook);
    int error = await_blocking(&awaiting, conn, wanted, deadline);
    sock_conn_unhook(conn, &awaiting.hook);
    vipl_cancel_restore(cancel);
    vipl_waker_reset(awaiting.waker);
    return error;
}
