/* SPDX-License-Identifier: MIT */
/*
 * Epoll sets with moved connections in them.
 *
 * The program's own set, in the kernel, keeps the descriptors that are the kernel's, each with the
 * program's events and data: for them nothing changes. As soon as a connection is added that is
 * moved, or may be, the program's set gets one more member: a set of the library's own, with a
 * random number as its data, by which the library finds it among the kernel's events. In the
 * library's set are the kernel's sockets of connections whose handshake is not over, each to be
 * reported once, and a waker. A moved connection is in no set of the kernel's; its stream notifies
 * its entry, which puts the entry on the list of those to be looked at: a wait costs what is ready,
 * and not what is there.
 *
 * The thread that waits drives the device, and sleeps for the device and the program's set. Other
 * threads, and sets and poll() calls that this set is in, are woken by the waker.
 *
 * Locks: the set's lock guards the entries, and is held during calls for a connection (SOCK_CONN)
 * and a stream; notifications take the ready lock only.
 */
#ifndef VIPL_SOCKETS_EPOLL_H
#define VIPL_SOCKETS_EPOLL_H

#include <stdbool.h>
#include <stdint.h>

#include <sys/epoll.h>

#include "base/list.h"
#include "os/os.h"
#include "os/os_mutex.h"
#include "sockets/conn.h"
#include "sockets/table.h"

enum sock_place {
    SOCK_IN_KERNEL,    /* the program's set has it: a set that is a member */
    SOCK_IN_HANDSHAKE, /* the library's set has it */
    SOCK_IN_LIBRARY,   /* no set has it: moved, or lost */
    SOCK_DISARMED      /* no set has it: with TCP, and EPOLLONESHOT has reported it before that */
};

/* A member of a set that is not the kernel's alone. Guarded by the set's lock unless it says
 * otherwise. */
struct sock_entry {
    struct sock_entry *next; /* of the same descriptor */
    struct sock_epoll *set;  /* constant */
    struct sock_file *file;  /* constant, with a reference: the connection, or a set */
    int fd;                  /* constant */
    uint32_t events;
    epoll_data_t data;
    enum sock_place place;
    uint32_t serial;    /* constant: tells an entry from an earlier one of the same descriptor */
    bool disarmed;      /* EPOLLONESHOT: was reported */
    bool fresh;         /* an edge: added, modified, or changed without the stream's saying so */
    uint32_t looked_by; /* the number of the last look that came to the entry */
    uint32_t told;      /* of a handshake: the events that were reported last */
    uint32_t arrivals;
    uint32_t rooms;               /* as of the last report, see vipl_stream_arrivals() and _rooms() */
    uint64_t again_at;            /* of a handshake: when to look again */
    struct vipl_stream_nic *nic;  /* of a handshake: the device that connects the VI; NULL: none */
    struct vipl_list member_link; /* the set's handshakes, or its member sets */
    struct vipl_list ready_link;  /* guarded by the ready lock, as the next one */
    struct vipl_list changed_link;
    struct vipl_stream_watch watch;
    struct vipl_stream *watched; /* the stream that has the watch; NULL: none */
    struct sock_hook hook;
    bool hooked;
};

/* What a set has by a descriptor; guarded by the set's lock. */
struct sock_epoll_row {
    struct sock_entry *first;
    /* Of a descriptor that is the kernel's alone: what the program's set has it for, in case it
     * becomes a connection. */
    epoll_data_t data;
    uint32_t events;
    bool is_recorded;
};

struct sock_epoll {
    struct sock_file file;
    struct vipl_list link;        /* all sets, guarded by their lock (epoll.c); in the pool: free */
    struct vipl_mutex lock;       /* rank SOCK_EPOLL */
    struct vipl_mutex ready_lock; /* rank SOCK_READY */
    uint32_t generation;          /* of the process whose sets these are */
    uint32_t kernel;              /* atomic: a descriptor of the program's set; -1: all are closed */
    int own;                      /* the library's set; -1: not made */
    struct vipl_waker waker;      /* in the library's set */
    struct sock_epoll_row *rows;  /* one for each descriptor */
    unsigned room;                /* for rows */
    uint32_t serial;              /* of the last entry */
    uint32_t looks;               /* so far, at the ready list */
    /* atomic: entries of connections that are not the kernel's. Grows before the ready lock is
     * taken to wake the sleepers: a thread that becomes a sleeper and then finds none is woken. */
    uint32_t watched;
    uint32_t moved; /* atomic: entries with a stream */
    /* atomic: the device that a thread which waits drives; those of other streams have threads of
     * their own. Valid while `moved` is not 0. */
    void *nic;
    void *joins;          /* atomic: a device that connects a VI of `handshakes`; NULL: none */
    uint32_t has_own;     /* atomic: the library's set is made */
    uint32_t has_members; /* atomic: member sets */
    uint32_t series;      /* atomic, relaxed: waits that ended without a look at the kernel's set */
    struct vipl_list handshakes;
    struct vipl_list members; /* entries that are sets */

    /* Guarded by the ready lock. */
    struct vipl_list ready;   /* entries to be looked at */
    struct vipl_list changed; /* entries whose connection has another state */
    unsigned ready_count;
    unsigned sleepers; /* threads that wait, or are about to */
    bool is_watched;   /* the set is in another one: the waker stays signalled while entries are ready */
    bool is_signalled; /* the waker */
};

/* --- sets (epoll.c) --- */

/* Looks up a set. The caller owns a reference. */
struct sock_epoll *sock_epoll_of(int fd);
/* Returns the set after another one, with a reference, and gives back that one's. NULL before:
 * the first set; NULL: there is no other one. */
struct sock_epoll *sock_epoll_next(struct sock_epoll *before);

/* The random number. */
uint64_t sock_epoll_key(void);

/* A descriptor of the program's set. */
static inline int sock_epoll_kernel(const struct sock_epoll *set)
{
    return (int)vipl_load_relaxed(&set->kernel);
}
/* Makes the set one that has no members, by the descriptor of the program's set. */
void sock_epoll_clear(struct sock_epoll *set, int fd);
/* Makes the library's set, if it is not made yet. Returns 0 or an errno value. The set's lock is
 * held. */
int sock_epoll_make_own(struct sock_epoll *set);

/* --- members (epoll_entry.c); the set's lock is held --- */

/* epoll_ctl() for the program's set, and for a descriptor that is the kernel's alone. Returns 0 or
 * an errno value. */
int sock_epoll_kernel_ctl(struct sock_epoll *set, int operation, int fd, struct epoll_event *event);
/* Records what the program's set has a descriptor for; NULL: it does not have the descriptor. */
void sock_epoll_record(struct sock_epoll *set, int fd, const struct epoll_event *event);
/* Whether the program's set has the descriptor, as far as that is recorded, and for what. */
bool sock_epoll_recorded(const struct sock_epoll *set, int fd, struct epoll_event *event);

/* Makes an entry, with a reference to the file. NULL: no memory. */
struct sock_entry *sock_entry_new(struct sock_epoll *set, int fd, struct sock_file *file,
                                  const struct epoll_event *event);
/* Finds the entry of a descriptor and of what it stands for; NULL: there is none. */
struct sock_entry *sock_entry_find(struct sock_epoll *set, int fd, const struct sock_file *file);
/* Finds the entry that the library's set has reported; NULL: it is gone. */
struct sock_entry *sock_entry_of_key(struct sock_epoll *set, uint64_t key);
/* Forgets an entry that no set of the kernel's has any more, or ever had; all entries. */
void sock_entry_forget(struct sock_entry *entry);
void sock_entries_forget(struct sock_epoll *set);
/* The connection of an entry; NULL: the entry is a set. */
struct sock_conn *sock_entry_conn(const struct sock_entry *entry);
/* Where a connection in that state is watched. */
enum sock_place sock_entry_place_for(enum sock_state state);
/* Has the new entry of a connection watched. The entry is forgotten if that fails, or if the
 * connection is the kernel's by now. Returns 0 or an errno value. */
int sock_entry_place(struct sock_entry *entry, struct sock_conn *conn);
/* The program has modified the entry of a connection, which is forgotten if the connection is the
 * kernel's by now. Returns 0 or an errno value. */
int sock_entry_rearm(struct sock_entry *entry, const struct epoll_event *event);
/* Takes the entry out of the set of the kernel's that it is in. */
void sock_entry_leave_kernel(struct sock_entry *entry);
/* The library's set shall report the entry once for these events. */
void sock_entry_expect(struct sock_entry *entry, short events);
/* Places entries whose connection has another state. */
void sock_epoll_sweep_locked(struct sock_epoll *set);

/* In a forked child: the set becomes this process's (epoll_ctl.c). */
void sock_epoll_renew_locked(struct sock_epoll *set);

/* --- notifications (epoll_ready.c) --- */

/* The calling thread drives the device for this set from now on: notifications that it makes itself
 * do not wake it. NULL: for none. */
void sock_epoll_drive(const struct sock_epoll *set);
/* Puts the entry on the ready list, or on the list of those whose connection has another state. */
void sock_epoll_mark_ready(struct sock_entry *entry);
void sock_epoll_mark_changed(struct sock_entry *entry);
/* Wakes the threads that sleep for the set and do not drive it. */
void sock_epoll_wake_others(struct sock_epoll *set);
/* Signals the waker. The ready lock is held. */
void sock_epoll_signal_locked(struct sock_epoll *set);

/* --- a set among the descriptors of poll(), or in another set (epoll_wait.c) --- */

/* Drops entries that are not ready, so that the kernel's answer for the set is right. Returns the
 * device to be driven if the set, or one in it, has moved connections, or NULL. */
struct vipl_stream_nic *sock_epoll_trim(struct sock_file *file);
/* The caller sleeps for the set by the kernel. */
void sock_epoll_begin_sleep(struct sock_file *file);
void sock_epoll_end_sleep(struct sock_file *file);

#endif
