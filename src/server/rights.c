/* SPDX-License-Identifier: MIT */
#include "server/rights.h"

#include <errno.h>

#include "base/lock_rank.h"
#include "base/log.h"
#include "os/os_atomic.h"
#include "os/os_mutex.h"
#include "share/arena.h"

enum { NONE = 0, NOT_KNOWN = -1 };
enum { STEPS = 3 }; /* of a process that becomes another user: its list of groups, its group, its user */
enum { LOOK_MS = 1000, NS_PER_MS = 1000000 };

static struct {
    struct vipl_mutex lock; /* rank RIGHTS; guards all below but looked */
    struct {
        int pid;      /* of its process, or NONE or NOT_KNOWN */
        int socket;   /* which tells whether the process has that number still */
        bool refused; /* that a call was refused is in the log already */
    } clients[VIPL_SHARE_CLIENTS];
    unsigned found;  /* the client that had the server's rights at the last look, and is asked first */
    bool kept;       /* that the rights cannot be dropped is in the log already */
    uint32_t looked; /* atomic: when, in ms */
} rights;

void vipl_server_rights_init(void)
{
    vipl_mutex_init(&rights.lock, VIPL_RANK_RIGHTS);
}

static bool has_rights(int pid)
{
    return pid > NONE && vipl_compare_rights(pid) != VIPL_RIGHTS_OTHER;
}

/* The lock is held. A client that is not known yet may have the server's rights. */
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

/* The lock is held. No client has the server's rights: it takes those of the first one, from `first` on, that has not ended. */
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
    } else if (error != ESRCH && !rights.kept) {
        rights.kept = true;
        vipl_log(VIPL_LOG_ERROR,
                 "the server of shared objects has rights that its processes have dropped: error %d", error);
    }
}

/* The lock is held. */
static void follow(unsigned first)
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
    rights.clients[client].refused = false;
    vipl_mutex_unlock(&rights.lock);
}

void vipl_server_rights_end(unsigned client)
{
    vipl_mutex_lock(&rights.lock);
    rights.clients[client].pid = NONE;
    follow(client);
    vipl_mutex_unlock(&rights.lock);
}

/* A process that the system cannot name here, because of its name space, stays unknown. */
void vipl_server_rights_known(unsigned client, const struct vipl_sender *sender)
{
    vipl_mutex_lock(&rights.lock);
    bool first = rights.clients[client].pid == NOT_KNOWN;
    rights.clients[client].pid = sender->pid > NONE ? sender->pid : NOT_KNOWN;
    if (first) { /* as long as it was unknown no rights were dropped */
        follow(client);
    }
    vipl_mutex_unlock(&rights.lock);
}

static void log_refusal(unsigned client, int pid)
{
    if (!rights.clients[client].refused) {
        rights.clients[client].refused = true;
        vipl_log(VIPL_LOG_ERROR,
                 "process %d has other users, groups or capabilities than others that share objects with it: "
                 "it uses what it has, but does not open, listen, connect or register",
                 pid);
    }
}

/* The sender's user and group are those of when it sent: since then its number may have become another process's. */
bool vipl_server_rights_allow(unsigned client, const struct vipl_sender *sender)
{
    vipl_mutex_lock(&rights.lock);
    bool allowed = has_rights(sender->pid);
    for (int i = 0; !allowed && i < STEPS; i++) { /* another thread of its may be in the middle of them */
        follow(client);
        allowed = has_rights(sender->pid);
    }
    allowed = allowed && vipl_is_own_identity(sender);
    if (!allowed) {
        log_refusal(client, sender->pid);
    }
    vipl_mutex_unlock(&rights.lock);
    return allowed;
}

void vipl_server_rights_look(void)
{
    uint32_t now = (uint32_t)(vipl_now_ns() / NS_PER_MS);
    uint32_t looked = vipl_load_relaxed(&rights.looked);
    if (now - looked >= LOOK_MS && vipl_compare_exchange(&rights.looked, looked, now)) {
        vipl_mutex_lock(&rights.lock);
        follow(0);
        vipl_mutex_unlock(&rights.lock);
    }
}
