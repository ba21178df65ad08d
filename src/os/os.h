/* SPDX-License-Identifier: MIT */
/*
 * Every operating system service that the library uses, one section for each need. Each service is
 * implemented once for each system, below posix/, linux/ and (to come) windows/; no other folder
 * includes a system header for one of these needs.
 *
 * A function that returns int returns 0 or an errno value, unless its comment says otherwise. Its
 * comment lists the errno values that callers distinguish.
 */
#ifndef VIPL_OS_H
#define VIPL_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- memory: the only allocator; tests make the Nth allocation fail --------------------------- */

/* The library does not use the C library's allocator, because a signal handler that calls the
 * library may have interrupted malloc(). This allocator has a lock of its own; a thread that holds
 * that lock is inside the library, where handlers are refused (base/guard.h). All return NULL if
 * there is no memory. */
void *vipl_alloc(size_t bytes);
void *vipl_zalloc(size_t bytes); /* zeroed */
void vipl_free(void *p);
/* Returns zeroed whole pages, which are never given back. */
void *vipl_alloc_slab(size_t bytes);
/* In a forked child: forgets the free blocks, whose state another thread of the parent may have
 * been changing. */
void vipl_alloc_abandon(void);
/* Reserves address space for zeroed pages; the system provides each page when it is first
 * touched. */
void *vipl_reserve(size_t bytes);
void vipl_unreserve(void *pages, size_t bytes); /* does nothing for NULL */

/* --- what the system may refuse: tests make the Nth such call fail ---------------------------- */

/* Asked before each system call that takes a resource. Returns true, with errno set to `error`, if
 * a test wants this call to fail: the caller then does not make it. */
bool vipl_resource_fails(int error);

/* What tests ask for; 0 asks for nothing. */
struct vipl_test_hooks {
    uint32_t alloc_countdown; /* atomic: the n-th allocation from now on fails */
    /* atomic: the n-th call from now on that makes or watches a mapping, thread, process or
     * descriptor fails */
    uint32_t resource_countdown;
    uint32_t max_sent;     /* atomic: the most bytes that one call of vipl_socket_send() moves */
    uint32_t max_received; /* atomic: the same for vipl_socket_receive() */
};
extern struct vipl_test_hooks vipl_test_hooks;

/* --- clock ------------------------------------------------------------------------------------ */

uint64_t vipl_now_ns(void); /* monotonic */

/* --- process --------------------------------------------------------------------------------- */

int vipl_pid(void);
unsigned vipl_cpu_count(void); /* the CPUs that are online; at least 1 */
/* Runs `run` in a new process that this process does not notice: no SIGCHLD comes, and no wait()
 * finds it. The process is forked without exec, in a session of its own, with all signals blocked
 * and no descriptors but `keep` and the standard error output. */
int vipl_spawn(const char *name, void (*run)(void *), void *arg, const int *keep, unsigned count);
/* Runs a program in a new process that this process does not notice either. The program inherits
 * the descriptors `pass` and begins with all signals blocked. ENOENT, EACCES: there is no such
 * program. */
int vipl_spawn_program(char *const arguments[], char *const environment[], const int *pass, unsigned count);
/* How vipl_hidden_child() starts a process. */
struct vipl_hidden {
    /* Runs in the child between, with all signals blocked: starts the other process. Returns 0 or
     * an errno value. */
    int (*start)(void *arg, int report);
    void *arg;
    /* the other process reports 0 when it has begun; else it reports errors only */
    bool reports_success;
    bool may_stay; /* the child between may stay as the other process's parent */
};
/* Makes a child that no wait() finds. The child calls start() and ends. If the other process would
 * then become a child of this process (a subreaper), the child stays as its parent instead. Returns
 * 0 once the other process has reported 0 or, if it reports errors only, once it has not reported
 * any. ETIMEDOUT: start() has not returned. */
int vipl_hidden_child(const struct vipl_hidden *what);
/* Reports to the process that called vipl_hidden_child(). Returns false if that no longer
 * listens. */
bool vipl_hidden_report(int report, int error);
/* To be called by start(): calls run() in a new process while the caller waits. The process may
 * share the caller's memory until run() has executed a program. */
int vipl_hidden_begin(int (*run)(void *arg, int report), void *arg, int report);
/* Closes every descriptor of a process that the library made for itself. */
void vipl_close_all(void);
/* To be called by a program of the project: goes on in a child in a session of its own, whose
 * parent ends here, with no descriptors but `keep` and the standard error output. Returns 0 in that
 * child. */
int vipl_detach(const char *name, const int *keep, unsigned count);
/* To be called by a background process: sends its standard error output to /dev/null, so that a
 * program that reads the starter's output through a pipe sees the end when the starter ends. */
void vipl_silence(void);
/* Calls `handler`, as a signal handler, when the system or the user asks this program to end: at
 * SIGTERM and SIGINT, and at SIGHUP unless that is ignored. For programs of the project; the
 * library does not call it. */
void vipl_on_end(void (*handler)(void));
/* Makes writes to a pipe without readers and writes beyond a size limit fail with EPIPE and EFBIG,
 * where they would end the program. For programs of the project, too. */
void vipl_writes_fail(void);
void vipl_process_end(void);                  /* ends the process at once: no exit handler runs */
int vipl_entropy(void *bytes, size_t length); /* unpredictable bytes */
int vipl_host_name(char *name, size_t size);  /* NUL-terminated */
/* The host's name with its domain, as the resolver has it. ENOENT: the resolver has none that
 * fits. */
int vipl_host_full_name(char *name, size_t size);
const char *vipl_environment(const char *name); /* NULL: the variable is not set */
const char *vipl_environment_at(unsigned i);    /* "NAME=VALUE"; NULL: there are no more */
/* Whether this program has more rights than its user: it is set-user-ID, or the like. */
bool vipl_has_more_rights(void);
/* Writes the text of an errno value into `text`, and returns it. */
const char *vipl_os_error(int error, char *text, size_t size);
/* Called when a NIC handle is opened. `asked`: the user has asked for text on the standard error
 * output. */
void vipl_error_output_begin(bool asked);
/* Whether descriptor 2 is a standard error output, and not another file of the program. This
 * function and the next two are async-signal-safe. */
bool vipl_error_output_is_open(void);
/* Writes to descriptor 2, if that is a standard error output. */
void vipl_print_error(const char *text, size_t length);
/* Writes to a descriptor. A failed write has no effect and raises no signal. */
void vipl_write_text(int fd, const char *text, size_t length);

/* --- fork ------------------------------------------------------------------------------------- */

/* Returns 1 in the process that loaded the library, and another number in each forked child. */
uint32_t vipl_fork_generation(void);
/* Sets `child`, which the child of every later fork calls, and registers the fork handlers if
 * `handlers` is true. If this process was forked and the handlers did not run, `child` is called
 * now. To be called before the process has objects, any number of times. */
int vipl_fork_watch(void (*child)(void), bool handlers);

/* Registers functions that are called around every later fork: `before` it, and after it in the
 * parent and in the child. To be called once. */
int vipl_around_fork(void (*before)(void), void (*parent)(void), void (*child)(void));

/* The library registers its descriptors, because a forked child closes its copies of them. No other
 * thread forks between vipl_fd_begin() and vipl_fd_end(), which enclose the call that makes a
 * descriptor and its registration; what comes between them must be short. */
void vipl_fd_begin(void);
void vipl_fd_end(void);
void vipl_fd_own(int fd); /* registers a descriptor */
bool vipl_fd_is_own(int fd);
/* Has later descriptors of the library be at this number or above it, so that the program's own
 * have the numbers that they would have without the library; if the limit of descriptors allows
 * that. */
void vipl_fd_keep_above(int least);
/* To be called before the descriptor is closed by other means than vipl_fd_close(). */
void vipl_fd_disown(int fd);
void vipl_fd_close(int fd); /* disowns and closes a descriptor; does nothing if fd < 0 */
/* Registers the descriptor that a system call has just returned, after moving it if its number is
 * below 3: even if the program has closed 0 to 2, the library has none there. Returns 0, or why
 * there is no descriptor: if *fd < 0, the errno of that call. On failure the descriptor is
 * closed. */
int vipl_fd_adopt(int *fd);
/* The same for two descriptors of one call: adopts both or none. */
int vipl_fd_adopt_pair(int fds[2]);
/* Whether the descriptor is open and of the kind that poll sets use. */
bool vipl_fd_is_poller(int fd);
/* Makes and registers a duplicate whose number is at least `least`, and at least 3. */
int vipl_fd_duplicate(int fd, int least, int *out);
/* Opens a file to append to, and makes it if it is missing. Forked children keep the descriptor.
 * ENXIO: the file is a pipe without readers. */
int vipl_fd_append(const char *path, int *fd);
/* Reads a whole regular file. *text is NUL-terminated, "" if the file is empty, and the caller's to
 * free. EISDIR, EINVAL: it is not a regular file; EFBIG: it has more than `most` bytes. */
int vipl_read_text(const char *path, size_t most, char **text);
/* Raises the limit of descriptors to what the system allows this process. */
void vipl_fd_raise_limit(void);
/* Names two descriptors (-1: none) that children forked by the calling thread keep, and register as
 * their own, until the next call. */
void vipl_fd_pass(int first, int second);
void vipl_fd_pass_report(int fd); /* names a third one, for vipl_hidden_child() */

/* --- threads: signals are blocked in them ----------------------------------------------------- */

/* Marks a thread-local variable whose access costs one instruction, and no allocation at first
 * use. */
#ifdef __GNUC__
#define VIPL_FAST_THREAD_LOCAL __attribute__((tls_model("initial-exec")))
#else
#define VIPL_FAST_THREAD_LOCAL
#endif

/* Disables cancellation of the calling thread, which would keep a lock of the library if it were
 * cancelled while it holds one. Returns what vipl_cancel_restore() takes. Both are
 * async-signal-safe. */
int vipl_cancel_off(void);
void vipl_cancel_restore(int before);

struct vipl_thread {
    uintptr_t id;
};
int vipl_thread_start(struct vipl_thread *thread, void (*run)(void *), void *arg);
void vipl_thread_join(struct vipl_thread *thread);
void vipl_thread_detach(struct vipl_thread *thread);
/* The thread ends at its next cancellation point. */
void vipl_thread_cancel(struct vipl_thread *thread);
bool vipl_thread_is_self(const struct vipl_thread *thread);
/* Lets another thread run on this CPU, if one wants to. */
void vipl_yield(void);
/* Keeps signals out of the calling thread, except those that an instruction of its own raises,
 * until vipl_signals_let_in(), in which the handlers of pending ones run. `before` can be given to
 * vipl_poll() as its mask. */
struct vipl_signals {
    uint64_t set[16]; /* a sigset_t */
};
void vipl_signals_keep_out(struct vipl_signals *before);
void vipl_signals_let_in(const struct vipl_signals *before);

/* --- waiting for a 32-bit word: may return early, so callers test the word again -------------- */

void vipl_futex_wait(uint32_t *word, uint32_t while_equal);
void vipl_futex_wake_one(uint32_t *word);
void vipl_futex_wake_all(uint32_t *word);
/* Waits at most `ms` milliseconds. ETIMEDOUT: they are over; EINTR: a signal handler ran, whether
 * or not it was installed with SA_RESTART; 0: any other end. */
int vipl_futex_wait_for(uint32_t *word, uint32_t while_equal, int ms);

/* --- barriers --------------------------------------------------------------------------------- */

/* Prepares this process for vipl_barrier_everywhere(), if the system has it. May be repeated;
 * os_mutex.h says who relies on it. */
void vipl_barrier_prepare(void);
/* Makes a full memory barrier in each running thread of this process: this thread then sees what
 * the other threads have stored before, and they see what this thread has stored. Returns false if
 * the system cannot. Async-signal-safe. */
bool vipl_barrier_everywhere(void);
/* Enters this process into the set of processes in which vipl_barrier_in_all() makes barriers. May
 * be repeated; a forked child has to call it again. Returns false if the system has no such set. */
bool vipl_barrier_take_part(void);
/* Makes the same barrier in all processes that take part. Returns false if the system cannot. */
bool vipl_barrier_in_all(void);

/* --- waiting for descriptors ------------------------------------------------------------------ */

/* Wakes one thread: signalling a waker makes its descriptor readable until the waker is reset. */
struct vipl_waker {
    int fd;
    /* fd itself where the system has event descriptors, else the other end of a pipe */
    int write_fd;
    uint32_t generation;
    /* atomic, pairs with the thread that signals: set if the thread's blocking call is to end.
     * NULL: the call has no such word */
    uint32_t *cancel;
};
int vipl_waker_open(struct vipl_waker *waker);
void vipl_waker_close(struct vipl_waker *waker);
void vipl_waker_signal(struct vipl_waker *waker); /* async-signal-safe */
void vipl_waker_reset(struct vipl_waker *waker);
/* The calling thread's; NULL: no descriptor or memory for one. */
struct vipl_waker *vipl_thread_waker(void);

/* A shared waker is a descriptor that one process sleeps on, in a poll set, and that another
 * process signals, to which it was passed. It is never reset: the poll set reports each signal
 * once (vipl_pollset_add_signals()). The process that signals does not trust the other one. */
/* Returns an errno value; ENOTSUP: the system has no shared wakers. */
int vipl_shared_waker_open(int *fd);
/* Whether a descriptor that another process has passed is a shared waker. */
bool vipl_shared_waker_is_valid(int fd);
void vipl_shared_waker_signal(int fd);

/* Sleeps for `ns` nanoseconds, less than a second, or until a signal handler has run. */
void vipl_pause(uint64_t ns);
/* Sleeps until a descriptor is readable or hung up, timeout_ms is over (-1: never), or a signal
 * handler has run. Descriptors < 0 are left out. `mask` is a sigset_t of the signals that are
 * blocked meanwhile; NULL leaves them as they are. Returns 0 if the first descriptor is readable or
 * is left out, VIPL_POLL_OTHERS if only others are, ETIMEDOUT, or EINTR. */
enum { VIPL_POLL_OTHERS = -1, VIPL_POLL_PROGRAM = -2 };
int vipl_poll(const int *fds, unsigned count, int timeout_ms, const void *mask);

/* Descriptors of the program that are watched beside those of the library, as ppoll() watches them:
 * a copy of the program's array, for one call. */
enum { VIPL_POLL_OWN = 4, VIPL_POLL_FEW = 16 };
struct pollfd;
struct vipl_more_fds {
    struct pollfd *set; /* room for VIPL_POLL_OWN descriptors of the library, then the program's */
    unsigned count;     /* of the program's */
    uint64_t few[VIPL_POLL_OWN + VIPL_POLL_FEW]; /* `set`, if the program's are few */
};
/* Copies the program's array. Returns 0, EINVAL if the array is missing or longer than any system
 * allows, or ENOMEM. vipl_more_fds_end() frees the copy. */
int vipl_more_fds_begin(struct vipl_more_fds *more, const struct pollfd *fds, unsigned long count);
void vipl_more_fds_end(struct vipl_more_fds *more);
/* Sets the revents of the program's array: what the last vipl_poll_more() found, or 0. */
void vipl_more_fds_copy(const struct vipl_more_fds *more, struct pollfd *fds, bool found);
/* vipl_poll() that also ends when one of the program's descriptors is ready, and notes their state.
 * `more` may be NULL. Also returns VIPL_POLL_PROGRAM if only descriptors of the program are ready,
 * and EINVAL: the process may not watch that many descriptors. */
int vipl_poll_more(const int *fds, unsigned count, const struct vipl_more_fds *more, int timeout_ms,
                   const void *mask);
/* Returns true if the last vipl_poll_more() found one of the program's descriptors ready. */
bool vipl_more_fds_are_ready(const struct vipl_more_fds *more);
/* The same as a cancellation point, if `cancel`, which vipl_cancel_off() returned, says that the
 * thread may be cancelled: `cancelled` is then called, and the thread ends. */
int vipl_poll_cancellable(const int *fds, unsigned count, const struct vipl_more_fds *more, int timeout_ms,
                          const void *mask, int cancel, void (*cancelled)(void *), void *arg);

/* A set of descriptors that is itself one descriptor. */
struct vipl_pollset {
    int fd;
};
struct vipl_ready {
    void *tag;
    bool hangup; /* the other end sends nothing more, or `broken` is true */
    bool broken; /* both directions have ended, or there is an error */
    bool readable;
    bool writable;
};
int vipl_pollset_open(struct vipl_pollset *set);
void vipl_pollset_close(struct vipl_pollset *set);
/* Adds a descriptor, to be reported with `tag` when it is readable or hung up. */
int vipl_pollset_add(struct vipl_pollset *set, int fd, void *tag);
/* Adds an end of a local socket, to be reported only when every process has closed the other
 * end. */
int vipl_pollset_add_end(struct vipl_pollset *set, int fd, void *tag);
/* Adds a shared waker, to be reported once after each signal or series of signals. */
int vipl_pollset_add_signals(struct vipl_pollset *set, int fd, void *tag);
void vipl_pollset_remove(struct vipl_pollset *set, int fd);
/* Writes at most `max` ready members, and returns their number. Never blocks. */
unsigned vipl_pollset_ready(struct vipl_pollset *set, struct vipl_ready *out, unsigned max);
/* Sets what a member is watched for besides its end. */
int vipl_pollset_change(struct vipl_pollset *set, int fd, void *tag, bool readable, bool writable);
/* Sets what a member is watched for, and adds it if `is_new`. A member that is watched for nothing
 * is still reported when it is broken. */
int vipl_pollset_watch(struct vipl_pollset *set, int fd, void *tag, bool is_new, bool readable,
                       bool writable);
/* Sleeps until a member is ready, the time is over (UINT64_MAX: never), or a signal handler has
 * run. */
void vipl_pollset_wait(struct vipl_pollset *set, uint64_t timeout_ns);

/* --- shared memory: anonymous, of a fixed size, passed by descriptor -------------------------- */

struct vipl_shm {
    int fd;
    void *base;
    size_t bytes;
};
/* Makes and maps zeroed memory, and allocates its pages. Forked children do not have the
 * mapping. */
int vipl_shm_create(struct vipl_shm *shm, const char *label, size_t bytes);
/* The same, but the system allocates each page when it is first touched. */
int vipl_shm_create_sparse(struct vipl_shm *shm, const char *label, size_t bytes);
/* Allocates the pages of a part of mapped sparse memory, so that touching them cannot fail.
 * ENOTSUP: the system cannot do that. Async-signal-safe; leaves errno as it is. */
int vipl_shm_allocate(void *first, size_t bytes);
/* As vipl_shm_create_sparse(), but forked children have the mapping too, and its address is free in
 * most other programs, so that vipl_shared_file_map() can map it there. */
int vipl_shm_reserve(struct vipl_shm *shm, const char *label, size_t bytes);
/* Returns the nth candidate for an address, a multiple of 2 MiB, at which most programs have
 * nothing in the next `bytes`: a random one between where systems put programs and where they put
 * libraries and stacks. Returns 0 if there is no nth candidate. */
uintptr_t vipl_address_apart(unsigned nth, size_t bytes);
/* Gives shared pages back to the system: they read as zeros. */
void vipl_shm_clear(void *pages, size_t bytes);
/* Maps a peer's segment, whose descriptor becomes shm->fd. EPERM: the segment is not sealed against
 * shrinking; EINVAL: it has less than `bytes`. */
int vipl_shm_attach(struct vipl_shm *shm, int fd, size_t bytes, bool writable);
void vipl_shm_close_fd(struct vipl_shm *shm); /* the mapping stays */
void vipl_shm_release(struct vipl_shm *shm);  /* unmaps and closes */
/* Releases memory that another thread may still read, to find that it means nothing any more: the
 * address stays mapped, reads as zeros, and is used again for later memory of the same size. */
void vipl_shm_retire(struct vipl_shm *shm);
/* In a forked child: forgets retired addresses and the memory that was published by
 * vipl_shm_show(). */
void vipl_shm_abandon(void);

/* Publishes one segment, in place of the one before, as memory that peers may map: processes that
 * the system allows to access this process's memory find it by its descriptor. Takes over
 * shm->fd. */
void vipl_shm_show(struct vipl_shm *shm);
/* A place in the segment that a process has published. */
struct vipl_mappable {
    /* of the publishing process, plus 1; 0: the memory is not in a published segment */
    uint32_t descriptor;
    uint64_t inode;
    uint64_t offset;
};
/* Writes where `bytes` at an address of this process lie in the segment that it has published. */
void vipl_shm_find_mappable(const void *address, size_t bytes, struct vipl_mappable *out);
/* Maps the whole segment that another process has published. What that process says is checked.
 * EPERM: the file is not sealed against shrinking; ESTALE: the descriptor is of another inode.
 * Other errno values: the system does not allow the access. */
int vipl_shm_fetch(struct vipl_shm *shm, int pid, const struct vipl_mappable *where);

/* Identifies shared memory: equal in every process that has the same memory mapped. */
struct vipl_mapping {
    uint64_t device;
    uint64_t inode;
    uint64_t offset; /* of the address */
};
/* EINVAL: the bytes are not all part of one shared mapping that may be read and written. */
int vipl_shared_mapping(const void *address, size_t bytes, struct vipl_mapping *out);

/* Whether the program may write to those of the bytes that are mapped now. */
bool vipl_may_write(const void *address, size_t bytes);
/* Writes the parts of the bytes that the program may read and write now and that other processes
 * reach by vipl_own_memory(), in order, at most `most`. Returns their number. */
struct vipl_part {
    uintptr_t first;
    size_t bytes;
};
unsigned vipl_plain_parts(const void *address, size_t bytes, struct vipl_part *out, unsigned most);

/* A shared mapping of the program, to be made in another program at the same address. */
struct vipl_shared_file {
    int fd;
    uintptr_t address;
    size_t bytes;
    uint64_t offset;
};
/* Lists all shared mappings that may be read and written, except those of devices and the library's
 * own, at most `most`. The caller closes the descriptors of *count mappings, also after an error.
 * ENOTSUP: there are more mappings, or one of which no descriptor can be opened. */
int vipl_shared_files(struct vipl_shared_file *out, unsigned most, unsigned *count);
/* EEXIST: other memory is mapped there */
int vipl_shared_file_map(const struct vipl_shared_file *file);

/* --- memory that may not be there ------------------------------------------------------------- */

/* Copies within this process. EFAULT, and no signal: memory is not mapped, may not be read or
 * written, or has lost its file; some bytes may have been copied. Slow, for it takes one system
 * call or more. Async-signal-safe. */
int vipl_copy_checked(void *to, const void *from, size_t bytes);

/* --- another process's memory ----------------------------------------------------------------- */

struct vipl_iov {
    void *base;
    size_t len;
};
/*
 * A random word at a random address of a program, by which other processes know that they reach the
 * memory of this program and of no other. After an exec the word is gone, and a forked child does
 * not have it.
 */
struct vipl_peer_mark {
    uint64_t address;
    uint32_t value;
};
/* Makes the mark of this program. The mark lasts as long as the program. */
int vipl_peer_mark_make(struct vipl_peer_mark *mark);

/* Another process, as long as it runs the program that has told this mark. */
struct vipl_peer {
    int pid;
    struct vipl_peer_mark mark;
};
enum { VIPL_PEER_PIECES = 16 }; /* the most pieces in a list of one call, the mark's included */
/*
 * Copy `bytes` between pieces of this process and pieces of the peer, in one system call. The
 * caller leaves the first piece of each list free for the mark; `locals` and `remotes` count it.
 * Return 0 if all bytes were copied. ESRCH: the process has ended or runs another program, or its
 * number belongs to another process, of which no byte was read or written. EFAULT: memory is not
 * there, or may not be accessed in this way; some bytes may have been copied. Other errno values:
 * the system does not allow the access.
 */
int vipl_peer_read(const struct vipl_peer *peer, struct vipl_iov *local, unsigned locals,
                   struct vipl_iov *remote, unsigned remotes, size_t bytes);
int vipl_peer_write(const struct vipl_peer *peer, struct vipl_iov *local, unsigned locals,
                    struct vipl_iov *remote, unsigned remotes, size_t bytes);

/* --- local rendezvous: sockets in a name space of this host, with any bytes as a name --------- */

/* EADDRINUSE: another socket has the name. */
int vipl_local_listen(const void *name, size_t length, int *fd);
/* Makes two connected ends without a name; both are -1 on failure. */
int vipl_local_pair(int fds[2]);
/* Replaces another descriptor by an end of a pair. The number is never free in between. */
int vipl_local_replace(int fd, int *by);
/* ECONNREFUSED: there is no such name; EAGAIN: the listener's queue of callers is full. *fd is -1
 * before the first call. After a failure it is a socket that the next call uses or the caller
 * closes, or -1. */
int vipl_local_connect(const void *name, size_t length, int *fd);
int vipl_local_accept(int listener, int *fd);
/* The process and user at the other end, as the system tells them. */
int vipl_local_peer(int fd, int *pid, uint32_t *user);
uint32_t vipl_local_user(void); /* the effective user of this process */
/* Sends one message, all of it or nothing, with duplicates of `pass_fds`. Never blocks. EAGAIN:
 * there is no room. */
int vipl_local_send(int fd, const void *bytes, size_t length, const int *pass_fds, unsigned fd_count);
/* Receives one message of at most `size` bytes; *length is 0 at the end of the stream. fds[] gets
 * up to two descriptors, and -1 where none came. Never blocks. EAGAIN: there is no message. */
int vipl_local_receive(int fd, void *bytes, size_t size, size_t *length, int fds[2]);
bool vipl_local_has_hung_up(int fd); /* whether every process has closed the other end */
/* The sender of a message, as the system saw it when the message was sent. */
struct vipl_sender {
    int pid; /* 0: not known */
    uint32_t user;
    uint32_t group;
};
/* Has the system add the sender to every message that is sent to this socket from now on. */
int vipl_local_name_senders(int fd);
int vipl_local_receive_from(int fd, void *bytes, size_t size, size_t *length, int fds[2],
                            struct vipl_sender *sender);
/* The users, groups and capabilities of this process compared with those of another process. */
enum vipl_rights {
    VIPL_RIGHTS_SAME,
    /* the same users and groups, and fewer capabilities than the other process */
    VIPL_RIGHTS_FEWER,
    /* other users or groups, or a capability that the other process lacks; or that process has
     * ended */
    VIPL_RIGHTS_OTHER,
    /* the system does not tell: there is no /proc, or /proc is that of another name space */
    VIPL_RIGHTS_UNKNOWN
};
enum vipl_rights vipl_compare_rights(int pid);
/* Whether the sender's user and group are the real ones of this process. */
bool vipl_is_own_identity(const struct vipl_sender *sender);
/* Gives this process, with all its threads, the users and groups of another process. It loses
 * capabilities as the system takes them away at such a change. On failure it may have some of the
 * groups, and none of the users. ESRCH: the other process has ended; `socket`, which that process
 * has the other end of, tells so even if its number has been given to a new process. */
int vipl_take_rights(int pid, int socket);

/* --- local stream sockets with a path; descriptors go along with bytes. They never block, raise no
 * signal, and do not survive exec -------------------------------------------------------------- */

enum { VIPL_UNIX_FDS = 16 }; /* the most descriptors that go along with one send */

/* Takes the path for this process, for as long as the process lives. EADDRINUSE: another process
 * has it. A socket that a dead process has left there is removed. *lock is what
 * vipl_unix_unlisten() takes. Other users have no access. */
int vipl_unix_listen(const char *path, int *listener, int *lock);
void vipl_unix_unlisten(const char *path, int listener, int lock);
/* ENOENT, ECONNREFUSED: nothing listens there; EAGAIN: the listener's queue of callers is full. */
int vipl_unix_connect(const char *path, int *fd);
/* Sends as many bytes as possible at once, with duplicates of the descriptors if any byte is sent.
 * EAGAIN: there is no room. */
int vipl_unix_send(int fd, const void *bytes, size_t length, const int *pass, unsigned count, size_t *sent);
/* Receives what is there, and at most `most` descriptors, which are registered as the library's
 * own. *length is 0 at the end of the stream. EAGAIN: nothing is there. EMSGSIZE: more descriptors
 * came, or not all of them could be received; none is left open then. */
int vipl_unix_receive(int fd, void *bytes, size_t size, size_t *length, int *fds, unsigned most,
                      unsigned *count);
void vipl_unix_shutdown(int fd); /* both ends see the end of the stream */
/* Returns a descriptor that becomes readable when the process that made the other end has ended;
 * -1: the system has none. */
int vipl_unix_peer_process(int fd);
/* Makes a folder of mode 0700 for this user's sockets, if it is missing. EPERM: it is another
 * user's, or open to others. */
int vipl_private_folder(const char *path);
/* Returns 0 if the folder is this user's and no other user may write there; EPERM if not; or why
 * that is not known. */
int vipl_own_folder(const char *path);

/* --- events: descriptors that count, made by this process or another one ---------------------- */

int vipl_event_open(int *fd); /* the descriptor does not block; -1 on failure */
void vipl_event_clear(int fd);
/* Whether it is safe to signal a descriptor that another process has made. */
bool vipl_event_is(int fd);
void vipl_event_signal(int fd);

/* --- files as the memory of a device ---------------------------------------------------------- */

enum vipl_file_kind {
    VIPL_FILE_OTHER,    /* nothing is known of it: an access may block, or raise a signal */
    VIPL_FILE_MAPPABLE, /* shared memory whose pages cannot be taken away while it is mapped */
    VIPL_FILE_MEMORY,   /* other shared memory: to be read and written as a file */
    VIPL_FILE_PROCESS   /* /proc/N/mem, the memory of a process: the offset is the address */
};
struct vipl_file {
    enum vipl_file_kind kind;
    uint64_t device;
    uint64_t inode;
    uint64_t bytes; /* not valid for the memory of a process */
};
/* Finds out what a descriptor from another process stands for. Seals the file against shrinking
 * where that makes it mappable. */
int vipl_file_identify(int fd, struct vipl_file *out);
/* Maps a whole mappable file as shared memory; read-only if it may not be written. */
int vipl_file_map(int fd, uint64_t bytes, void **base, bool *writable);
void vipl_file_unmap(void *base, uint64_t bytes);
/* Read and write all bytes at an offset. ESRCH: the file ends before them or, for the memory of a
 * process, that process has ended. EFAULT: memory is not there, or may not be accessed in this way.
 * The file does not grow. */
int vipl_file_read(int fd, uint64_t offset, void *out, size_t bytes);
int vipl_file_write(int fd, uint64_t offset, const void *in, size_t bytes);
/* Opens this process's own memory, for another process to read and write. */
int vipl_own_memory(int *fd);

/* --- stream sockets between hosts: they never block, raise no signal, and do not survive exec - */

/* One end of a connection. host_len is 4 for IPv4, and 16 for IPv6. */
struct vipl_inet {
    uint8_t host[16];
    uint16_t host_len;
    uint16_t port;
    uint32_t scope; /* of a link-local IPv6 address */
};
/* Finds the index-th address of a host's name, among those that have host_len bytes. Returns false
 * if there is none. May block. */
bool vipl_inet_resolve(const char *name, uint32_t index, uint16_t host_len, struct vipl_inet *out);
/* Whether an interface of this host has the address, whatever the system lets a program bind to. A
 * loopback interface has all addresses of its IPv4 network. */
bool vipl_inet_is_own(const struct vipl_inet *inet);
/* Finds the host's name, or writes its address as text if no name service has one. Returns false if
 * the text does not fit. May block. */
bool vipl_inet_reverse(const struct vipl_inet *inet, char *name, size_t size);

struct vipl_socket_tuning {
    uint32_t idle_ms;    /* milliseconds without data before a keepalive is sent */
    uint32_t timeout_ms; /* milliseconds without a reply before the connection is lost */
    /* bytes of the kernel's send and receive buffers each; 0: the system chooses */
    uint32_t buffer;
};
/* EADDRINUSE: the port is taken. */
int vipl_socket_listen(const struct vipl_inet *local, const struct vipl_socket_tuning *tuning, int *fd);
/* `tuning` is that of the listener. EAGAIN: there is no caller. */
int vipl_socket_accept(int listener, const struct vipl_socket_tuning *tuning, int *fd,
                       struct vipl_inet *peer);
/* Starts to connect from the address `local`. The descriptor becomes writable when the outcome is
 * known. */
int vipl_socket_connect(const struct vipl_inet *local, const struct vipl_inet *remote,
                        const struct vipl_socket_tuning *tuning, int *fd);
int vipl_socket_connect_result(int fd); /* 0: connected; else why not */
/* Reads signs that the peer's host still replies. Returns false if the system itself ends
 * connections whose peer does not. */
struct vipl_socket_signs {
    uint32_t silent_ms; /* since the last data or acknowledgement */
    bool unanswered;    /* data has not been acknowledged yet */
    bool queued;        /* there is data that may not even have been sent */
    bool probed;        /* more than one keepalive has not been answered */
};
bool vipl_socket_signs_of_life(int fd, struct vipl_socket_signs *out);
uint32_t vipl_socket_segment_bytes(int fd); /* the payload of one segment; 536 if it is not known */
/* Send and receive as many bytes as possible at once. EAGAIN: none. *received is 0 at the end of
 * the stream. `more`: the system may hold back the last partial packet until more is sent, or
 * vipl_socket_push() is called. Sending is no cancellation point; receiving is none for one
 * piece. */
int vipl_socket_send(int fd, const struct vipl_iov *pieces, unsigned count, bool more, size_t *sent);
void vipl_socket_push(int fd);
int vipl_socket_receive(int fd, const struct vipl_iov *pieces, unsigned count, size_t *received);
void vipl_socket_finish(int fd); /* nothing more will be sent */

/* --- PCI functions of this machine, named by an address such as 0000:00:05.0 ------------------ */

/* A PCI function that the kernel's vfio-pci driver has. */
struct vipl_vfio {
    int device;    /* the file of the function; its regions are ranges of the file */
    int group;     /* the file of the group: the functions that no IOMMU tells from each other */
    int container; /* the file of the IOMMU */
};
struct vipl_span {
    uint64_t first;
    uint64_t last;
};
/* ENODEV: there is no such function, or vfio-pci does not have it. EBUSY: another process has
 * opened it. EPERM: vfio-pci does not have all functions of its group. */
int vipl_vfio_open(const char *address, struct vipl_vfio *out);
void vipl_vfio_close(const struct vipl_vfio *vfio);
/* Where a BAR (index 0 to 5) or the configuration space (index 7) lies in the function's file. */
int vipl_vfio_region(const struct vipl_vfio *vfio, unsigned index, uint64_t *offset, uint64_t *bytes);
/* The ranges of addresses that memory may have on the bus, in order. *page_bytes is what the
 * addresses and lengths of memory and of its place on the bus are multiples of. */
int vipl_vfio_spans(const struct vipl_vfio *vfio, struct vipl_span *out, unsigned most, unsigned *count,
                    size_t *page_bytes);
/* Locks memory and maps it for DMA. EFAULT: the memory is not there, or not writable; ENOMEM: the
 * limit of locked memory; ENOSPC: the limit of mappings. */
int vipl_vfio_map(const struct vipl_vfio *vfio, void *address, uint64_t iova, size_t bytes, bool writable);
void vipl_vfio_unmap(const struct vipl_vfio *vfio, uint64_t iova, size_t bytes);
/* Opens one descriptor for each MSI-X vector, which becomes readable when the vector fires. */
int vipl_vfio_interrupts(const struct vipl_vfio *vfio, int *fds, unsigned count);
int vipl_vfio_reset(const struct vipl_vfio *vfio);

/* Opens a file of the function in sysfs for reading and writing. ENODEV: there is no such function;
 * EBUSY: another process has opened the file by this call. */
int vipl_pci_open(const char *address, const char *name, int *fd);
/* Writes a word to a file. */
int vipl_pci_set(const char *address, const char *name, const char *value);
bool vipl_pci_is_address(const char *address); /* whether the text has the form of an address */
bool vipl_pci_has_iommu(const char *address);
/* Make one access of 1, 2 or 4 bytes. Return false if it failed. */
bool vipl_pci_read(int fd, uint64_t offset, void *out, size_t bytes);
bool vipl_pci_write(int fd, uint64_t offset, const void *in, size_t bytes);
/* Maps registers or doorbells. Forked children do not have the mapping. NULL: they cannot be
 * mapped. */
void *vipl_pci_map(int fd, uint64_t offset, size_t bytes);
void vipl_pci_unmap(void *base, size_t bytes);

/* --- memory for DMA --------------------------------------------------------------------------- */

/* Returns zeroed pages aligned to 2 MiB, which forked children do not have. `physical`: 2 MiB
 * exactly, at one range of physical addresses. NULL: there is no memory, or the system has set no
 * such pages aside. */
void *vipl_dma_pages(size_t bytes, bool physical);
void vipl_dma_pages_free(void *pages, size_t bytes);
size_t vipl_page_bytes(void);
/* Locks pages into memory. Locks do not nest: one unlock undoes any number of them. ENOMEM: not all
 * of the memory is there, or the limit of locked memory is reached. */
int vipl_memory_lock(const void *address, size_t bytes);
void vipl_memory_unlock(const void *address, size_t bytes);
/* The physical addresses of whole pages. EPERM: the process may not know them; EFAULT: a page is
 * not there. */
int vipl_physical_pages(const void *address, size_t count, uint64_t *out);

/* --- whole frames: they never block. EAGAIN: nothing has come, or there is no room now -------- */

/* Datagrams between hosts, each with one frame. EADDRINUSE: the port is taken. */
int vipl_datagram_open(const struct vipl_inet *local, int *fd);
int vipl_datagram_send(int fd, const struct vipl_inet *to, const void *bytes, size_t length);
/* A datagram that is longer than `size` is cut. */
int vipl_datagram_receive(int fd, struct vipl_inet *from, void *bytes, size_t size, size_t *length);
/* Frames of one EtherType on a network interface, each from its destination address on. EPERM: this
 * process may not; ENODEV: there is no such Ethernet interface. */
int vipl_packet_open(const char *interface, uint16_t type, uint8_t mac[6], uint32_t *mtu, int *fd);
/* Frames through a virtual interface, which is made if it is missing: what is sent here arrives
 * there. */
int vipl_tap_open(const char *interface, int *fd);
int vipl_frame_send(int fd, const void *frame, size_t length);
/* ENODEV: the interface is gone, for good. */
int vipl_frame_receive(int fd, void *frame, size_t size, size_t *length);

#endif
