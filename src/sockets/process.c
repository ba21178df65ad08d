/* SPDX-License-Identifier: MIT */
#include "sockets/process.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/deadline.h"
#include "os/os.h"
#include "os/os_atomic.h"
#include "sockets/attach.h"
#include "sockets/conn.h"
#include "sockets/mark.h"
#include "sockets/places.h"
#include "sockets/probe.h"
#include "sockets/real.h"
#include "sockets/wait.h"

enum { DRAIN_MS = 2000, STRIP_MS = 100, OWN_FDS = 512 };

static uint32_t process; /* atomic: of which this memory is */

bool sock_process_is_own(void)
{
    return (uint32_t)getpid() == vipl_load_relaxed(&process);
}

static void end_handshakes(void)
{
    if (sock_process_is_own() && sock_enter()) {
        sock_handshake_before_fork();
        sock_leave();
    }
}

static void inherit(int fd, struct sock_file *file, void *unused)
{
    (void)fd;
    (void)unused;
    if (file->kind == &sock_conn_kind) {
        sock_conn_forked(VIPL_CONTAINER(file, struct sock_conn, file));
    }
    sock_file_put(file);
}

/* The child has the parent's memory and descriptors, and only the thread that has forked. */
static void in_child(void)
{
    vipl_store_relaxed(&process, (uint32_t)getpid());
    sock_table_forked();
    sock_handshake_forked();
    sock_device_forked();
    sock_places_forked();
    sock_probes_forked();
    sock_conns_forked();
    sock_marks_forked();
    sock_epolls_forked();
    sock_table_each(0, INT_MAX, inherit, NULL);
}

static void end_one(int fd, struct sock_file *file, void *unused)
{
    (void)unused;
    sock_file_put(file);
    sock_table_drop(fd);
}

void sock_process_end(void)
{
    if (sock_process_is_own() && sock_enter()) {
        vipl_stream_process_ends();
        sock_table_each(0, INT_MAX, end_one, NULL);
        vipl_stream_drain(DRAIN_MS);
        sock_leave();
    }
}

/* What is left of a handshake would be the new program's bytes. */
static void give_to_program(int fd, struct sock_file *file, void *unused)
{
    struct sock_conn *conn = VIPL_CONTAINER(file, struct sock_conn, file);
    (void)unused;
    if (file->kind == &sock_conn_kind) {
        enum sock_state state = sock_conn_state(conn);
        if (state != SOCK_UNKNOWN && state != SOCK_LISTENING) {
            sock_conn_give_up(conn, SOCK_OPTION);
            sock_conn_await(conn, POLLIN, true, vipl_deadline(STRIP_MS));
        }
        if (sock_conn_state(conn) >= SOCK_MOVED) {
            sock_table_drop(fd);
            shutdown(fd, SHUT_RDWR); /* the new program finds the end */
        }
    }
    sock_file_put(file);
}

void sock_process_exec(void)
{
    int error = errno;
    if (sock_process_is_own() && sock_enter()) {
        sock_table_each(0, INT_MAX, give_to_program, NULL);
        vipl_stream_drain(DRAIN_MS);
        sock_leave();
    }
    errno = error;
}

__attribute__((constructor)) static void start(void)
{
    int before = errno;
    sock_real();
    vipl_store_relaxed(&process, (uint32_t)getpid());
    vipl_fd_keep_above(OWN_FDS);
    pthread_atfork(end_handshakes, NULL, in_child);
    if (sock_enter()) {
        sock_attach_inherited();
        sock_leave();
    }
    errno = before;
}

__attribute__((destructor)) static void finish(void)
{
    sock_process_end();
}
