/* SPDX-License-Identifier: MIT */
/*
 * Which of the program's descriptors the sockets library knows. A descriptor that is not in the
 * table is the kernel's alone, and costs a few loads.
 *
 * What a descriptor stands for is a struct sock_file, as an open file description is in the kernel:
 * duplicates of a descriptor share it. A connection and an epoll set have one as their first
 * member. Their memory is from pools and never given back (base/pool.h), so a thread may look a
 * descriptor up while another thread closes it.
 */
#ifndef VIPL_SOCKETS_TABLE_H
#define VIPL_SOCKETS_TABLE_H

#include <stdbool.h>
#include <stdint.h>

struct sock_file;

struct sock_file_kind {
    /* The last descriptor is about to be closed, or has become another file's. Threads may still
     * use the file. No lock is held. */
    void (*closed)(struct sock_file *file);
    /* A descriptor is about to be closed, and `other` is another one of the file. No lock is
     * held. */
    void (*moved)(struct sock_file *file, int fd, int other);
    /* Nothing refers to the file: puts it back into its pool. No lock is held. */
    void (*freed)(struct sock_file *file);
};
extern const struct sock_file_kind sock_conn_kind;  /* conn_file.c */
extern const struct sock_file_kind sock_epoll_kind; /* epoll.c */
extern const struct sock_file_kind sock_mark_kind;  /* mark.c: the library's; programs cannot close it */

struct sock_file {
    const struct sock_file_kind *kind; /* constant in each pool */
    uint32_t refs;                     /* atomic: its users, and one more while it has descriptors */
    uint32_t fds;                      /* its descriptors; guarded by the table's lock */
};

/* Looks a descriptor up. The caller owns a reference to what is returned. NULL: the table does not
 * know the descriptor. */
struct sock_file *sock_file_of(int fd);
/* The same without a reference, for what may be read although the memory may be another file's by
 * now: its kind, and what is atomic. */
const struct sock_file *sock_file_peek(int fd);
/* As sock_file_of() for one kind: NULL, if the descriptor stands for another kind. */
struct sock_file *sock_file_of_kind(int fd, const struct sock_file_kind *kind);
void sock_file_get(struct sock_file *file); /* the caller has a reference already */
void sock_file_put(struct sock_file *file);
/* Adds a reference to a file that may be free. Returns false if it is. */
bool sock_file_get_used(struct sock_file *file);

/* Makes a descriptor stand for a file, to which the caller has a reference and keeps it. What the
 * descriptor stood for is dropped. Returns 0, or ENOMEM and EMFILE: the table does not take the
 * descriptor. */
int sock_table_set(int fd, struct sock_file *file);
/* `to` has become a duplicate of `from`: dup(), dup2(), F_DUPFD. */
void sock_table_duplicate(int from, int to);
/* The descriptor is about to be closed. */
void sock_table_drop(int fd);
/* Calls `each` for every descriptor from `first` to `last` that the table knows, with a reference
 * that the caller of `each` owns. */
void sock_table_each(unsigned first, unsigned last, void (*each)(int fd, struct sock_file *file, void *arg),
                     void *arg);
/* In a forked child: no thread holds the table's lock. */
void sock_table_forked(void);

#endif
