/* SPDX-License-Identifier: MIT */
/*
 * Every operating system service that the library uses, one section for each need. Implemented once for each system
 * below posix/, linux/ and (to come) windows/; no other folder includes a system header for one of these needs.
 * Functions that can fail return an errno value, 0 for success.
 */
#ifndef VIPL_OS_H
#define VIPL_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- memory: the only allocator; tests make the Nth allocation fail ----------------------------- */

/* Not the C library's allocator: a signal handler may have interrupted that, and then call the library. This one
 * has a lock of its own. A thread that holds the lock is inside the library, where handlers are refused
 * (base/guard.h). */
void *vipl_alloc(size_t bytes);
void *vipl_zalloc(size_t bytes);
void vipl_free(void *p);
void *vipl_alloc_slab(size_t bytes); /* zeroed whole pages, never given back */
void vipl_alloc_abandon(void);       /* in a forked child: free memory stays unused */
/* Zeroed pages, as many as may ever be needed: each is found when it is first touched. */
void *vipl_reserve(size_t bytes);
void vipl_unreserve(void *pages, size_t bytes); /* NULL: nothing */

/* --- what the system may refuse: tests make the Nth such call fail ----------------------------- */

bool vipl_resource_fails(int error); /* asked before each such call: if it is to fail, errno is `error` */

/* What tests ask for; all 0 otherwise. */
struct vipl_test_hooks {
    uint32_t alloc_countdown; /* atomic: the n-th next allocation fails */
    uint32_t
        resource_countdown; /* atomic: so does the n-th next call that makes or watches a mapping, thread, process or descriptor */
    uint32_t max_sent;     /* atomic: bytes that a call of vipl_socket_send() moves at most */
    uint32_t max_received; /* atomic: likewise */
};
extern struct vipl_test_hooks vipl_test_hooks;

/* --- clock ------------------------------------------------------------------------------------- */

uint64_t vipl_now_ns(void); /* monotonic */

/* --- process --------------------------------------------------------------------------------- */

int vipl_pid(void);
unsigned vipl_cpu_count(void); /* that are there for all processes; at least 1 */
/* Runs `run` in a process of its own, of which this process is not told: no SIGCHLD, and no wait() finds it. It is forked without exec, in a
 * session of its own, with all signals blocked and no descriptors but `keep` and the standard error output. */
int vipl_spawn(const char *name, void (*run)(void *), void *arg, const int *keep, unsigned count);
/* Runs a program in a process of which this one is not told either. It inherits `pass`, and begins with all signals blocked. ENOENT,
 * EACCES: there is no such program. */
int vipl_spawn_program(char *const arguments[], char *const environment[], const int *pass, unsigned count);
/* A child that no wait() finds makes another process by start(), which returns 0 or an errno value, and ends; or it stays as the parent of that
 * process, if that would become a child of this one. 0: the other process has reported 0, or nothing if only errors are to be reported.
 * ETIMEDOUT: start() has not returned. All signals are blocked in both. */
struct vipl_hidden {
    int (*start)(void *arg, int report);
    void *arg;
    bool reports_success;
    bool may_stay;
};
int vipl_hidden_child(const struct vipl_hidden *what);
bool vipl_hidden_report(int report, int error); /* false: nobody hears it */
/* For start(): run() in another process, which may have this one's memory, while the caller waits, until it runs a program. */
int vipl_hidden_begin(int (*run)(void *arg, int report), void *arg, int report);
void vipl_close_all(void); /* of an own process */
/* For such a program: goes on in a session of its own, in a process whose parent ends here, with no descriptors but `keep` and the
 * standard error output. 0 in that process; else an errno value. */
int vipl_detach(const char *name, const int *keep, unsigned count);
/* In a process in the background: its standard error output goes nowhere from now on, so that the program that reads the starter's by a pipe is
 * at its end when the starter is. */
void vipl_silence(void);
/* Calls the handler when the system or its user asks this program to end (SIGTERM, SIGINT, and SIGHUP unless that is
 * ignored already), as a handler of that signal. For programs of our own: it is not in the library. */
void vipl_on_end(void (*handler)(void));
/* A write to a pipe that nobody reads, or beyond a limit, is an error (EPIPE, EFBIG) in place of the end of this program. Likewise. */
void vipl_writes_fail(void);
void vipl_process_end(void);                  /* at once: no handler of the program runs */
int vipl_entropy(void *bytes, size_t length); /* unpredictable bytes */
int vipl_host_name(char *name, size_t size);  /* NUL-terminated */
int vipl_host_full_name(char *name,
                        size_t size); /* with its domain, as the resolver has it; ENOENT: it has none */
const char *vipl_environment(const char *name);
const char *vipl_environment_at(unsigned i); /* "NAME=VALUE"; NULL: there are no more */
bool vipl_has_more_rights(void);             /* this program, than its user: set-user-ID and the like */
const char *vipl_os_error(int error, char *text, size_t size); /* errno value to text */
/* A NIC handle is about to be opened: whether the user has asked for text on the standard error output. */
void vipl_error_output_begin(bool asked);
/* Whether descriptor 2 is a standard error output, and no other file of the program's. This and the next two are async-signal-safe. */
bool vipl_error_output_is_open(void);
void vipl_print_error(const char *text, size_t length);        /* there, if it is */
void vipl_write_text(int fd, const char *text, size_t length); /* no signal comes of it */

/* --- fork --------------------------------------------------------------------------------------- */

/* 1 in the process that loaded the library, another number in each forked child. */
uint32_t vipl_fork_generation(void);
/* Registers `child`, to be called in the child of every later fork, if `handlers` is true. In any case it is
 * called now, if this process was forked and the handlers did not run. To be called before the process has
 * objects, any number of times. */
int vipl_fork_watch(void (*child)(void), bool handlers);

/* Registers all three, to be called around every later fork: before it, and after it in parent and child. To be
 * called once. */
int vipl_around_fork(void (*before)(void), void (*parent)(void), void (*child)(void));

/* The library's descriptors, of which a forked child closes its copies. Between begin and end, which must be
 * close together, no other thread forks: a descriptor is opened and registered there. */
void vipl_fd_begin(void);
void vipl_fd_end(void);
void vipl_fd_own(int fd);
void vipl_fd_disown(int fd); /* it is closed elsewhere, after this */
void vipl_fd_close(int fd);  /* < 0: nothing */
/* No descriptor of the library is below 3, even if the program has closed 0 to 2. Each descriptor of the library
 * is registered right after the call that made it. Returns 0, or why there is no descriptor (*fd < 0: the errno
 * of that call). On failure the descriptor is closed. */
int vipl_fd_adopt(int *fd);
int vipl_fd_adopt_pair(int fds[2]); /* the same for two that one call has made: both, or none */
bool vipl_fd_is_poller(int fd);     /* whether it is open, and of the kind that poll sets use */
/* A duplicate of the descriptor, registered too, whose number is `least` or more, and not below 3. */
int vipl_fd_duplicate(int fd, int least, int *out);
/* A file to append to, made if need be; forked children keep it. ENXIO: a pipe that nobody reads. */
int vipl_fd_append(const char *path, int *fd);
/* All of a regular file, with a NUL behind it, to be freed; "" if it is empty. EISDIR, EINVAL: it is no regular file; EFBIG: more than `most` bytes. */
int vipl_read_text(const char *path, size_t most, char **text);
void vipl_fd_raise_limit(void); /* as many may be opened as the system allows this process */
/* Two descriptors (-1: none) that the children of the calling thread's forks keep, as their own, until the next
 * call. */
void vipl_fd_pass(int first, int second);
void vipl_fd_pass_report(int fd); /* one more: vipl_hidden_child()'s */

/* --- threads: signals are blocked in them ----------------------------------------------------- */

/* A thread-local variable that costs one instruction, and no allocation at first use. */
#ifdef __GNUC__
#define VIPL_FAST_THREAD_LOCAL __attribute__((tls_model("initial-exec")))
#else
#define VIPL_FAST_THREAD_LOCAL
#endif

/* A thread that is cancelled while it holds a lock of the library would keep it. Async-signal-safe. */
int vipl_cancel_off(void);
void vipl_cancel_restore(int before); /* what vipl_cancel_off() returned */

struct vipl_thread {
    uintptr_t id;
};
int vipl_thread_start(struct vipl_thread *thread, void (*run)(void *), void *arg);
void vipl_thread_join(struct vipl_thread *thread);
void vipl_thread_detach(struct vipl_thread *thread);
void vipl_thread_cancel(struct vipl_thread *thread); /* it ends at the next point where it may be cancelled */
bool vipl_thread_is_self(const struct vipl_thread *thread);

/* --- waiting for a 32-bit word: may return early, so callers test the word again ---------------- */

void vipl_futex_wait(uint32_t *word, uint32_t while_equal);
void vipl_futex_wake_one(uint32_t *word);
void vipl_futex_wake_all(uint32_t *word);
/* Likewise, for `ms` at most. EINTR: a signal handler ran, whatever SA_RESTART says; ETIMEDOUT; else 0. */
int vipl_futex_wait_for(uint32_t *word, uint32_t while_equal, int ms);

/* --- barriers ---------------------------------------------------------------------------------- */

/* Has the system make barriers in other threads from now on, if it can. Repeatable; see os_mutex.h. */
void vipl_barrier_prepare(void);
/* A full memory barrier in each running thread of this process: what a thread has stored by then is seen here, and what this
 * thread has stored is seen there. False: the system cannot. Async-signal-safe. */
bool vipl_barrier_everywhere(void);
/* The same in all processes that take part; with that, this one does. False: the system cannot. Repeatable; a forked child has to
 * take part again. */
bool vipl_barrier_take_part(void);
bool vipl_barrier_in_all(void);

/* --- waiting for descriptors -------------------------------------------------------------------- */

/* What wakes one thread: signalling it makes its descriptor readable until it is reset. */
struct vipl_waker {
    int fd;
    int write_fd; /* the same where the system has event descriptors, else a pipe's other end */
    uint32_t generation;
    /* atomic, pairs with the thread that signals: the thread's blocking call is to end; NULL: no such word */
    uint32_t *cancel;
};
int vipl_waker_open(struct vipl_waker *waker);
void vipl_waker_close(struct vipl_waker *waker);
void vipl_waker_signal(struct vipl_waker *waker); /* async-signal-safe */
void vipl_waker_reset(struct vipl_waker *waker);
struct vipl_waker *vipl_thread_waker(void); /* the calling thread's; NULL: no descriptors left */

/* Sleeps for so many nanoseconds, less than a second, or until a signal handler ran. */
void vipl_pause(uint64_t ns);
/* Sleeps until a descriptor is readable or hung up, timeout_ms is over (-1: never) or a signal
 * handler ran. Descriptors < 0 are left out. `mask`: a sigset_t, the signals that are blocked meanwhile; NULL: as they are. 0: readable, at least the
 * first; VIPL_POLL_OTHERS: not the first; ETIMEDOUT; EINTR. */
enum { VIPL_POLL_OTHERS = -1 };
int vipl_poll(const int *fds, unsigned count, int timeout_ms, const void *mask);
/* The same, and the thread may be cancelled meanwhile, if that is what vipl_cancel_off() had found: `cancelled` is called
 * then, and the thread ends. */
int vipl_poll_cancellable(const int *fds, unsigned count, int timeout_ms, const void *mask, int cancel,
                          void (*cancelled)(void *), void *arg);

/* A set of descriptors that is itself one descriptor. */
struct vipl_pollset {
    int fd;
};
struct vipl_ready {
    void *tag;
    bool hangup; /* the other end sends nothing more, or `broken` */
    bool broken; /* both directions have ended, or there is an error */
    bool readable;
    bool writable;
};
int vipl_pollset_open(struct vipl_pollset *set);
void vipl_pollset_close(struct vipl_pollset *set);
int vipl_pollset_add(struct vipl_pollset *set, int fd, void *tag);
/* It becomes ready only when every other process has closed the other end of the local socket. */
int vipl_pollset_add_end(struct vipl_pollset *set, int fd, void *tag);
void vipl_pollset_remove(struct vipl_pollset *set, int fd);
unsigned vipl_pollset_ready(struct vipl_pollset *set, struct vipl_ready *out,
                            unsigned max); /* never blocks */
/* What a member is watched for from now on, besides its end. */
int vipl_pollset_change(struct vipl_pollset *set, int fd, void *tag, bool readable, bool writable);
/* A member, new or not, is watched for these, and for being broken. */
int vipl_pollset_watch(struct vipl_pollset *set, int fd, void *tag, bool is_new, bool readable,
                       bool writable);
/* Sleeps until a member is ready, but not longer (UINT64_MAX: for ever) nor after a signal handler has run. */
void vipl_pollset_wait(struct vipl_pollset *set, uint64_t timeout_ns);

/* --- shared memory: anonymous, sized for good, passed by descriptor ------------------------------ */

struct vipl_shm {
    int fd;
    void *base;
    size_t bytes;
};
int vipl_shm_create(struct vipl_shm *shm, const char *label, size_t bytes);
/* The same, but pages are found when they are first touched. */
int vipl_shm_create_sparse(struct vipl_shm *shm, const char *label, size_t bytes);
/* The same as that, and forked children have it too. Its address is free in most
 * other programs, so that they can have it there: vipl_shared_file_map(). */
int vipl_shm_reserve(struct vipl_shm *shm, const char *label, size_t bytes);
/* The nth of some addresses for so many bytes, on a multiple of 2 MiB, where programs have nothing, most likely: chosen at random
 * between where systems put programs, and where they put libraries and stacks. 0: there is no nth one. */
uintptr_t vipl_address_apart(unsigned nth, size_t bytes);
void vipl_shm_clear(void *pages, size_t bytes); /* gives pages of one back: they read as zeros */
/* Maps a peer's segment: refused unless it is sealed against shrinking and has `bytes` at least. */
int vipl_shm_attach(struct vipl_shm *shm, int fd, size_t bytes, bool writable);
void vipl_shm_close_fd(struct vipl_shm *shm); /* the mapping stays */
void vipl_shm_release(struct vipl_shm *shm);
/* The same for memory that a thread may still read, to find that it means nothing any more: the address stays, and is used
 * for later memory of this size. */
void vipl_shm_retire(struct vipl_shm *shm);
void vipl_shm_abandon(void); /* in a forked child: forgets such addresses, and what is shown */

/* Shows a process that the system lets into this one's memory where its shared memory is: there is one at a time. Takes the
 * descriptor away. */
void vipl_shm_show(struct vipl_shm *shm);
/* Where in that memory an address lies. */
struct vipl_mappable {
    uint32_t descriptor; /* of the process that shows it, plus 1; 0: it lies elsewhere */
    uint64_t inode;
    uint64_t offset;
};
void vipl_shm_find_mappable(const void *address, size_t bytes, struct vipl_mappable *out);
/* Maps what the process shows, all of it. Nothing that it says is believed: EPERM if it is not sealed against shrinking, ESTALE if
 * the descriptor is not of that inode; or the system does not let us. */
int vipl_shm_fetch(struct vipl_shm *shm, int pid, const struct vipl_mappable *where);

/* Identifies the shared memory at an address: the same in every process that has mapped it there. */
struct vipl_mapping {
    uint64_t device;
    uint64_t inode;
    uint64_t offset; /* of the address */
};
/* EINVAL: not all of the bytes are one shared mapping that may be read and written. */
int vipl_shared_mapping(const void *address, size_t bytes, struct vipl_mapping *out);

/* Whether the program may write to the bytes, as far as they are mapped now. */
bool vipl_may_write(const void *address, size_t bytes);
/* The parts of the bytes that the program may read and write now, and that the system shows to others by vipl_own_memory(): in order,
 * the first `most` at most. Returns how many. */
struct vipl_part {
    uintptr_t first;
    size_t bytes;
};
unsigned vipl_plain_parts(const void *address, size_t bytes, struct vipl_part *out, unsigned most);

/* A shared mapping of the program's, to be made in another program at the same address. */
struct vipl_shared_file {
    int fd;
    uintptr_t address;
    size_t bytes;
    uint64_t offset;
};
/* All that may be read and written, but those of devices and the library's own; at most `most`. The descriptors of `count` are the
 * caller's to close, also after an error. ENOTSUP: there are more, or one of which no descriptor is to be had. */
int vipl_shared_files(struct vipl_shared_file *out, unsigned most, unsigned *count);
int vipl_shared_file_map(const struct vipl_shared_file *file); /* EEXIST: something lies there */

/* --- memory that may not be there --------------------------------------------------------------- */

/* Copies within this process. Memory that is not mapped, may not be read or written, or has lost its file is EFAULT, and
 * no signal; some bytes may have been copied then. Slow: a system call at least. Async-signal-safe. */
int vipl_copy_checked(void *to, const void *from, size_t bytes);

/* --- another process's memory --------------------------------------------------------------------- */

struct vipl_iov {
    void *base;
    size_t len;
};
/*
 * A word of a program, by which other processes know that they reach the memory of this program and of no other: at an address
 * chosen at random, where programs have nothing. An exec ends it, and a forked child does not have it.
 */
struct vipl_peer_mark {
    uint64_t address;
    uint32_t value;
};
/* Makes the mark of this program; it lasts as long as the program. */
int vipl_peer_mark_make(struct vipl_peer_mark *mark);

/* Another process, as long as it runs the program that has told this mark. */
struct vipl_peer {
    int pid;
    struct vipl_peer_mark mark;
};
enum { VIPL_PEER_PIECES = 16 }; /* of one call, each way; the first is the mark's */
/*
 * Copy `bytes` between pieces of this process and pieces of the peer, in one system call. The first piece of each list is left free by
 * the caller, for the mark; `locals` and `remotes` count it. 0: all of them. ESRCH: the process has gone, runs another program by now, or its
 * number is another process's; no byte of that one was read or written. EFAULT: memory is not there, or may not be accessed in this way;
 * some bytes may have been copied. Other errno values: the system does not allow it.
 */
int vipl_peer_read(const struct vipl_peer *peer, struct vipl_iov *local, unsigned locals,
                   struct vipl_iov *remote, unsigned remotes, size_t bytes);
int vipl_peer_write(const struct vipl_peer *peer, struct vipl_iov *local, unsigned locals,
                    struct vipl_iov *remote, unsigned remotes, size_t bytes);

/* --- local rendezvous: stream sockets in a name space of this host, any bytes as a name ----------- */

int vipl_local_listen(const void *name, size_t length, int *fd); /* EADDRINUSE: taken */
int vipl_local_pair(int fds[2]); /* two ends that need no name; -1 both where there are none */
/* Replaces another descriptor by an end of a pair: the number is never free in between. */
int vipl_local_replace(int fd, int *by);
/* ECONNREFUSED: there is no such name; EAGAIN: too many callers are before us. *fd is -1 at first, and after a failure what the
 * next try is to use or the caller to close. */
int vipl_local_connect(const void *name, size_t length, int *fd);
int vipl_local_accept(int listener, int *fd);
int vipl_local_peer(int fd, int *pid,
                    uint32_t *user); /* the process and user at the other end, from the system */
uint32_t vipl_local_user(void);
/* One message; all or nothing; never blocks (EAGAIN). pass_fds go along as duplicates. */
int vipl_local_send(int fd, const void *bytes, size_t length, const int *pass_fds, unsigned fd_count);
/* Up to size bytes: *length 0 at the end of the stream. Up to 2 descriptors, -1 where none came. */
int vipl_local_receive(int fd, void *bytes, size_t size, size_t *length, int fds[2]);
bool vipl_local_has_hung_up(int fd); /* whether every process has closed the other end */
/* The sender of a message, as the system saw it at that time. */
struct vipl_sender {
    int pid; /* 0: not known */
    uint32_t user;
    uint32_t group;
};
int vipl_local_name_senders(int fd); /* the system adds the sender to all messages sent to it from now on */
int vipl_local_receive_from(int fd, void *bytes, size_t size, size_t *length, int fds[2],
                            struct vipl_sender *sender);
/* This process's users, groups and capabilities beside those of another process. */
enum vipl_rights {
    VIPL_RIGHTS_SAME,
    VIPL_RIGHTS_FEWER,  /* the same users and groups, and not all of the capabilities */
    VIPL_RIGHTS_OTHER,  /* something that the other process lacks, other users or groups; or it is gone */
    VIPL_RIGHTS_UNKNOWN /* the system does not tell: there is no /proc, or it is that of another name space */
};
enum vipl_rights vipl_compare_rights(int pid);
bool vipl_is_own_identity(const struct vipl_sender *sender); /* whether user and group are this process's */
/* This process, with all its threads, gets the users and groups of another one, and loses capabilities as the system takes them
 * from a process that does so. 0, or an errno value: it may have some of the groups, and none of the users. ESRCH: that process
 * has ended, as its end of `socket` tells even if another process has its number already. */
int vipl_take_rights(int pid, int socket);

/* --- local stream sockets that have a path; descriptors go along with bytes. They never block, raise no signal, and do not
 * survive exec ------------------------------------------------------------------------------------------------------------- */

enum { VIPL_STREAM_FDS = 16 }; /* descriptors that go along, at most */

/* Takes the path for this process, as long as it lives: EADDRINUSE if another one has it. What a dead one has left there is
 * removed. `lock` is to be given to vipl_stream_unlisten(). Other users have no access. */
int vipl_stream_listen(const char *path, int *listener, int *lock);
void vipl_stream_unlisten(const char *path, int listener, int lock);
/* ENOENT, ECONNREFUSED: nothing listens there; EAGAIN: too many callers are before us. */
int vipl_stream_connect(const char *path, int *fd);
int vipl_stream_pair(int fds[2]);
/* Moves what can be moved at once; EAGAIN: nothing. Descriptors go along as duplicates if any byte goes. */
int vipl_stream_send(int fd, const void *bytes, size_t length, const int *pass, unsigned count, size_t *sent);
/* Received 0 with result 0: the stream has ended. At most `most` descriptors, which are the library's own; EMSGSIZE: there were
 * more, or not all could be received; none is left open then. */
int vipl_stream_receive(int fd, void *bytes, size_t size, size_t *length, int *fds, unsigned most,
                        unsigned *count);
void vipl_stream_shutdown(int fd); /* both ends see the stream end */
/* A descriptor that becomes readable when the process at the other end, as it was when it connected, has ended; -1: the system has
 * none. */
int vipl_stream_peer_process(int fd);
/* A folder of this user's, of mode 0700, in which sockets have their paths; it is made if need be. EPERM: it is another user's, or open to
 * others. */
int vipl_private_folder(const char *path);
/* Whether a folder is this user's, and nobody else may write there: 0, EPERM, or why that is not known. */
int vipl_own_folder(const char *path);

/* --- events: descriptors that count, made by this process or another one ---------------------------- */

int vipl_event_open(int *fd); /* does not block; -1 on failure */
void vipl_event_clear(int fd);
bool vipl_event_is(int fd); /* whether signalling it is safe, also if another process has made it */
void vipl_event_signal(int fd);

/* --- files as the memory of a device ---------------------------------------------------------------- */

enum vipl_file_kind {
    VIPL_FILE_OTHER,    /* nothing is to be expected of it: access may block, or raise a signal */
    VIPL_FILE_MAPPABLE, /* shared memory whose pages cannot be taken away while it is mapped */
    VIPL_FILE_MEMORY,   /* other shared memory: to be read and written as a file */
    VIPL_FILE_PROCESS   /* /proc/N/mem: a process's memory; the offset is the address */
};
struct vipl_file {
    enum vipl_file_kind kind;
    uint64_t device;
    uint64_t inode;
    uint64_t bytes; /* not of a process's memory */
};
/* What a descriptor from another process stands for. The file is sealed against shrinking if that makes it mappable. */
int vipl_file_identify(int fd, struct vipl_file *out);
/* All of a mappable file, shared; read-only where writing is not allowed. */
int vipl_file_map(int fd, uint64_t bytes, void **base, bool *writable);
void vipl_file_unmap(void *base, uint64_t bytes);
/* All bytes at that offset, or an errno value. ESRCH: there are not as many; of a process's memory: it has ended. EFAULT: memory is not
 * there, or may not be accessed in this way. The file does not grow. */
int vipl_file_read(int fd, uint64_t offset, void *out, size_t bytes);
int vipl_file_write(int fd, uint64_t offset, const void *in, size_t bytes);
/* This process's own memory, for another one to read and write. */
int vipl_own_memory(int *fd);

/* --- stream sockets between hosts: they never block, raise no signal, and do not survive exec ------- */

/* An end of a connection. host_len 4: IPv4; 16: IPv6. */
struct vipl_inet {
    uint8_t host[16];
    uint16_t host_len;
    uint16_t port;
    uint32_t scope; /* of a link-local IPv6 address */
};
/* The index-th address of a host's name, of those that have host_len bytes. False: there is none. May block. */
bool vipl_inet_resolve(const char *name, uint32_t index, uint16_t host_len, struct vipl_inet *out);
/* Whether an interface of this host has that address, whatever the system lets a program bind to; of a loopback interface, all
 * addresses of its IPv4 network. */
bool vipl_inet_is_own(const struct vipl_inet *inet);
/* The host's name, or its address as text where it has none or no name service can be asked. False: it does not fit.
 * May block. */
bool vipl_inet_reverse(const struct vipl_inet *inet, char *name, size_t size);

struct vipl_socket_tuning {
    uint32_t idle_ms;    /* milliseconds without data, after which the peer's host is sent a keepalive */
    uint32_t timeout_ms; /* milliseconds without a reply, after which the connection is lost */
    uint32_t buffer;     /* bytes of the kernel's send and receive buffers each; 0: the system chooses */
};
/* EADDRINUSE: the port is taken. */
int vipl_socket_listen(const struct vipl_inet *local, const struct vipl_socket_tuning *tuning, int *fd);
/* `tuning`: the listener's. */
int vipl_socket_accept(int listener, const struct vipl_socket_tuning *tuning, int *fd,
                       struct vipl_inet *peer);
/* Starts to connect; the descriptor becomes writable when the outcome is known. `local`: the address to connect
 * from. */
int vipl_socket_connect(const struct vipl_inet *local, const struct vipl_inet *remote,
                        const struct vipl_socket_tuning *tuning, int *fd);
int vipl_socket_connect_result(int fd); /* 0: connected, or why not */
/* Whether the peer's host still replies. False: the system itself ends connections whose peer does not. */
struct vipl_socket_signs {
    uint32_t silent_ms; /* since the last data or acknowledgement */
    bool unanswered;    /* data has not been acknowledged yet */
    bool queued;        /* other data may not even have been sent */
    bool probed;        /* more than one keepalive has not been answered */
};
bool vipl_socket_signs_of_life(int fd, struct vipl_socket_signs *out);
uint32_t vipl_socket_segment_bytes(int fd); /* the payload of one segment now; 536 if it is not known */
/* Moves as many bytes as possible at once; EAGAIN: none. Received 0 with result 0: the stream has ended. `more`: the system
 * may keep what does not fill a packet until more is sent, or it is pushed. The thread is not cancelled meanwhile; when it
 * receives, this holds for one piece. */
int vipl_socket_send(int fd, const struct vipl_iov *pieces, unsigned count, bool more, size_t *sent);
void vipl_socket_push(int fd);
int vipl_socket_receive(int fd, const struct vipl_iov *pieces, unsigned count, size_t *received);
void vipl_socket_finish(int fd); /* nothing more will be sent */

/* --- PCI functions of this machine, named by an address such as 0000:00:05.0 ------------------------------------ */

/* A function in the hands of the kernel's vfio-pci. */
struct vipl_vfio {
    int device;    /* its regions are ranges of this file */
    int group;     /* of functions that no IOMMU tells apart */
    int container; /* the IOMMU */
};
struct vipl_span {
    uint64_t first;
    uint64_t last;
};
/* ENODEV: there is no such function, or it is not vfio-pci's. EBUSY: another process has it. EPERM: not all functions of its group are
 * vfio-pci's. */
int vipl_vfio_open(const char *address, struct vipl_vfio *out);
void vipl_vfio_close(const struct vipl_vfio *vfio);
/* Where a BAR (0 to 5) or the configuration space (7) is in the file. */
int vipl_vfio_region(const struct vipl_vfio *vfio, unsigned index, uint64_t *offset, uint64_t *bytes);
/* Addresses that memory may have on the bus, in order; *page_bytes: what they and its addresses and lengths are multiples of. */
int vipl_vfio_spans(const struct vipl_vfio *vfio, struct vipl_span *out, unsigned most, unsigned *count,
                    size_t *page_bytes);
/* Locks memory and maps it for DMA. EFAULT: it is not there, or not writable; ENOMEM: the limit of locked memory; ENOSPC: that of
 * maps. */
int vipl_vfio_map(const struct vipl_vfio *vfio, void *address, uint64_t iova, size_t bytes, bool writable);
void vipl_vfio_unmap(const struct vipl_vfio *vfio, uint64_t iova, size_t bytes);
/* Descriptors, each of which is readable once the MSI-X vector of its number has fired. */
int vipl_vfio_interrupts(const struct vipl_vfio *vfio, int *fds, unsigned count);
int vipl_vfio_reset(const struct vipl_vfio *vfio);

/* A function's file in sysfs, to be read and written. ENODEV: there is no such function; EBUSY: another process has opened the file by
 * this call. */
int vipl_pci_open(const char *address, const char *name, int *fd);
int vipl_pci_set(const char *address, const char *name, const char *value); /* a file that takes a word */
bool vipl_pci_is_address(const char *address);                              /* whether it looks like one */
bool vipl_pci_has_iommu(const char *address);
/* One access of 1, 2 or 4 bytes. False: it failed. */
bool vipl_pci_read(int fd, uint64_t offset, void *out, size_t bytes);
bool vipl_pci_write(int fd, uint64_t offset, const void *in, size_t bytes);
/* Registers or doorbells as memory, which forked children do not have. NULL: that cannot be mapped. */
void *vipl_pci_map(int fd, uint64_t offset, size_t bytes);
void vipl_pci_unmap(void *base, size_t bytes);

/* --- memory for DMA ------------------------------------------------------------------------------------------------ */

/* Zeroed pages of this process that forked children do not have, aligned to 2 MiB. `physical`: 2 MiB exactly, which are one range of
 * physical addresses; the system has set such pages aside, or there are none. */
void *vipl_dma_pages(size_t bytes, bool physical);
void vipl_dma_pages_free(void *pages, size_t bytes);
size_t vipl_page_bytes(void);
/* Keeps pages in memory until they are unlocked, once, however often they were locked. ENOMEM: not all of it is there, or the limit of
 * locked memory. */
int vipl_memory_lock(const void *address, size_t bytes);
void vipl_memory_unlock(const void *address, size_t bytes);
/* The physical addresses of whole pages. EPERM: the process may not know them; EFAULT: one is not there. */
int vipl_physical_pages(const void *address, size_t count, uint64_t *out);

/* --- whole frames: they never block. EAGAIN: nothing has come, or there is no room now ------------------- */

/* As datagrams between hosts. A datagram that is longer than `size` is cut. */
int vipl_datagram_open(const struct vipl_inet *local, int *fd); /* EADDRINUSE: the port is taken */
int vipl_datagram_send(int fd, const struct vipl_inet *to, const void *bytes, size_t length);
int vipl_datagram_receive(int fd, struct vipl_inet *from, void *bytes, size_t size, size_t *length);
/* On a network interface, from destination address on: frames of one EtherType. EPERM: this process may not. ENODEV: there is no such
 * Ethernet interface. */
int vipl_packet_open(const char *interface, uint16_t type, uint8_t mac[6], uint32_t *mtu, int *fd);
/* Through a virtual interface, made if need be: what is sent here arrives there. */
int vipl_tap_open(const char *interface, int *fd);
int vipl_frame_send(int fd, const void *frame, size_t length);
int vipl_frame_receive(int fd, void *frame, size_t size,
                       size_t *length); /* ENODEV: the interface is gone, for good */

#endif
