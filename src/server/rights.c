/* SPDX-License-Identifier: MIT */
#include "server/rights.h"

#include <errno.h>

#include "base/lock_rank.h"
#include "base/log.h"
#include "os/os_atomic.h"
#include "os/os_mutex.h"
#include "share/arena.h"

enum { NONE = 0, NOT_KNOWN = -1 };
/* a process that becomes another user changes its list of groups, its group, its user */
enum { STEPS = 3 };
enum { CHECK_MS = 1000, NS_PER_MS = 1000000 };

static struct {
    struct vipl_mutex lock; /* rank RIGHTS; guards all below except `looked` */
    struct {
        int pid;             /* of the client's process, or NONE or NOT_KNOWN */
        int socket;          /* tells whether the process still has that pid */
        bool refusal_logged; /* a refused call has been logged */
    } clients[VIPL_SHARE_CLIENTS];
    /* the client that had the server's rights at the last check, and is checked first */
    unsigned found;
    bool failure_logged; /* that the rights cannot be dropped has been logged */
    uint32_t checked_ms; /* atomic: when the rights were last checked, in ms */
} rights;

void vipl_server_rights_init(void)
{
    vipl_mutex_init(&rights.lock, VIPL_RANK_RIGHTS);
}

static bool has_rights(int pid)
{
    return pid > NONE && vipl_compare_rights(pid) != VIPL_RIGHTS_OTHER;
}

/* Whether a client has the server's rights. One that is not known yet may have them. The
 * lock is held. */
static bool any_has_rights(void)
{
    for (unsigned i = 0; i < VIPL_SHARE_CLIENTS; i++) {
        unsigned client = (rights.found + i) % VIPL_SHARE_CLIENTS;
        int pid = rights.clients[client].pid;
        if (pid == NOT_KNOWN || has_rights(pid)) {
            rights.found = client;
            return true;
        }
    }
    return false;
}

/* No client has the server's rights: the server takes those of the first client, from `first` on,
 * that has not ended. The lock is held. */
static void drop_rights(unsigned first)
{
    int error = ESRCH;
    int pid = NONE;
    for (unsigned i = 0; error == ESRCH && i < VIPL_SHARE_CLIENTS; i++) {
        unsigned client = (first + i) % VIPL_SHARE_CLIENTS;
        pid = rights.clients[client].pid;
        error = pid == NONE ? ESRCH : vipl_take_rights(pid, rights.clients[client].socket);
    }
    if (error == 0 && has_rights(pid)) {
        vipl_log(VIPL_LOG_INFO, "the server of shared objects has dropped its rights, as process %d has",
                 pid);
    } else if (error != ESRCH && !rights.failure_logged) {
        rights.failure_logged = true;
        vipl_log(VIPL_LOG_ERROR,
                 "the server of shared objects has rights that its processes have dropped: error %d", error);
    }
}

/* Drops the server's rights if no client has them. The lock is held. */
static void update_rights(unsigned first)
{
    if (!any_has_rights()) {
        drop_rights(first);
    }
}

void vipl_server_rights_begin(unsigned client, int socket)
{
    vipl_mutex_lock(&rights.lock);
    rights.clients[client].pid = NOT_KNOWN;
    rights.clients[client].socket = socket;
    rights.clients[client].refusal_logged = false;
    vipl_mutex_unlock(&rights.lock);
}

void vipl_server_rights_end(unsigned client)
{
    vipl_mutex_lock(&rights.lock);
    rights.clients[client].pid = NONE;
    update_rights(client);
    vipl_mutex_unlock(&rights.lock);
}

/* A process that the system cannot name here, because of its name space, stays unknown. */
void vipl_server_rights_known(unsigned client, const struct vipl_sender *sender)
{
    vipl_mutex_lock(&rights.lock);
    bool first = rights.clients[client].pid == NOT_KNOWN;
    rights.clients[client].pid = sender->pid > NONE ? sender->pid : NOT_KNOWN;
    if (first) { /* while the process was unknown, no rights were dropped */
        update_rights(client);
    }
    vipl_mutex_unlock(&rights.lock);
}

/* The lock is held. */
static void log_refusal(unsigned client, int pid)
{
    if (!rights.clients[client].refusal_logged) {
        rights.clients[client].refusal_logged = true;
        vipl_log(VIPL_LOG_ERROR,
                 "process %d has other users, groups or capabilities than others that share objects with it: "
                 "it uses what it has, but does not open, listen, connect or register",
                 pid);
    }
}

void vipl_server_rights_log_refusal(unsigned client)
{
    vipl_mutex_lock(&rights.lock);
    log_refusal(client, rights.clients[client].pid);
    vipl_mutex_unlock(&rights.lock);
}

/* The sender's user and group are those at the time of sending: its pid may be another process's
 * since then. They differ, too, if the process is changing them: the C library does that thread by
 * thread, and what the system tells of a process is true of its first thread. */
enum vipl_permission vipl_server_rights_allow(unsigned client, const struct vipl_sender *sender)
{
    vipl_mutex_lock(&rights.lock);
    bool allowed = has_rights(sender->pid);
    /* another thread of the client may be in the middle of the steps */
    for (int i = 0; !allowed && i < STEPS; i++) {
        update_rights(client);
        allowed = has_rights(sender->pid);
    }
    enum vipl_permission permission = !allowed                       ? VIPL_REFUSED
                                      : vipl_is_own_identity(sender) ? VIPL_ALLOWED
                                                                     : VIPL_CHANGING;
    if (permission == VIPL_REFUSED) {
        log_refusal(client, sender->pid);
    }
    vipl_mutex_unlock(&rights.lock);
    return permission;
}

void vipl_server_rights_refresh(void)
{
    uint32_t now = (uint32_t)(vipl_now_ns() / NS_PER_MS);
    uint32_t checked_ms = vipl_load_relaxed(&rights.checked_ms);
    if (now - checked_ms >= CHECK_MS && vipl_compare_exchange(&rights.checked_ms, checked_ms, now)) {
        vipl_mutex_lock(&rights.lock);
        update_rights(0);
        vipl_mutex_unlock(&rights.lock);
    }
}
