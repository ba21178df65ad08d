/* SPDX-License-Identifier: MIT */
/* Byte streams between processes of this host. */
#ifndef VIPL_OS_STREAM_H
#define VIPL_OS_STREAM_H

#include <stddef.h>

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

#endif
