/* SPDX-License-Identifier: MIT */
#include "server/rights.h"

#include <string.h>

#include "base/lock_rank.h"
#include "base/log.h"
#include "os/os_atomic.h"
#include "os/os_mutex.h"
#include "share/arena.h"

enum { NONE = 0, NOT_KNOWN = -1 };
enum { LOOK_MS = 1000, NS_PER_MS = 1000000 };

static struct {
    struct vipl_mutex lock;           /* rank RIGHTS; guards all below but looked */
    int pids[VIPL_SHARE_CLIENTS];     /* of the clients' processes, or NONE or NOT_KNOWN */
    bool refused[VIPL_SHARE_CLIENTS]; /* that a call was refused is in the log already */
    bool kept;                        /* that the rights cannot be dropped is in the log already */
    uint32_t looked;                  /* atomic: when, in ms */
} rights;

void vipl_server_rights_init(void)
{
    vipl_mutex_init(&rights.lock, VIPL_RANK_RIGHTS);
}

/* A process that has the server's rights, or may have them for all that is known. */
static bool keeps_rights(int pid)
{
    return pid != NONE && (pid == NOT_KNOWN || vipl_compare_rights(pid) != VIPL_RIGHTS_OTHER);
}

/* The lock is held. */
static bool any_keeps_rights(void)
{
    for (unsigned i = 0; i < VIPL_SHARE_CLIENTS; i++) {
        if (keeps_rights(rights.pids[i])) {
            return true;
        }
    }
    return false;
}

/* The lock is held. NONE: there is no client. */
static int first_pid(void)
{
    unsigned i = 0;
    while (i < VIPL_SHARE_CLIENTS - 1 && rights.pids[i] == NONE) {
        i++;
    }
    return rights.pids[i];
}

/* The lock is held. No client has the server's rights: it takes those of this one. */
static void drop_to(int pid)
{
    int error = vipl_take_rights(pid);
    if (vipl_compare_rights(pid) != VIPL_RIGHTS_OTHER) {
        vipl_log(VIPL_LOG_INFO, "the server of shared objects has dropped its rights, as process %d has",
                 pid);
    } else if (!rights.kept) {
        rights.kept = true;
        vipl_log(VIPL_LOG_ERROR,
                 "the server of shared objects has rights that its processes have dropped: error %d", error);
    }
}

/* The lock is held. */
static void follow(int pid)
{
    if (pid > NONE && !any_keeps_rights()) { /* of which an unknown one would be */
        drop_to(pid);
    }
}

void vipl_server_rights_begin(unsigned client)
{
    vipl_mutex_lock(&rights.lock);
    rights.pids[client] = NOT_KNOWN;
    rights.refused[client] = false;
    vipl_mutex_unlock(&rights.lock);
}

void vipl_server_rights_end(unsigned client)
{
    vipl_mutex_lock(&rights.lock);
    rights.pids[client] = NONE;
    follow(first_pid());
    vipl_mutex_unlock(&rights.lock);
}

/* A process that the system cannot name here, because of its name space, stays unknown. */
void vipl_server_rights_known(unsigned client, const struct vipl_sender *sender)
{
    vipl_mutex_lock(&rights.lock);
    bool first = rights.pids[client] == NOT_KNOWN;
    rights.pids[client] = sender->pid > NONE ? sender->pid : NOT_KNOWN;
    if (first) { /* as long as it was unknown no rights were dropped */
        follow(first_pid());
    }
    vipl_mutex_unlock(&rights.lock);
}

static void log_refusal(unsigned client, int pid)
{
    if (!rights.refused[client]) {
        rights.refused[client] = true;
        vipl_log(VIPL_LOG_ERROR,
                 "process %d has other users, groups or capabilities than others that share objects with it: "
                 "it uses what it has, but does not open, listen, connect or register",
                 pid);
    }
}

bool vipl_server_rights_allow(unsigned client, const struct vipl_sender *sender)
{
    vipl_mutex_lock(&rights.lock);
    bool other = sender->pid <= NONE || vipl_compare_rights(sender->pid) == VIPL_RIGHTS_OTHER;
    if (other) {
        follow(sender->pid);
        other = sender->pid <= NONE || vipl_compare_rights(sender->pid) == VIPL_RIGHTS_OTHER;
    }
    bool allowed = !other && vipl_is_own_identity(sender);
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
        follow(first_pid());
        vipl_mutex_unlock(&rights.lock);
    }
}
