/* SPDX-License-Identifier: MIT */
/*
 * Text that the library writes for the user: the log, and traces. No such write ends the program,
 * whatever file the descriptor stands for.
 *
 * Descriptor 2 need not be a standard error output: a daemon closes it, and the next file that the
 * daemon opens gets the number. Text that the user has not asked for therefore goes there only
 * while descriptor 2 is the terminal or pipe that it was when a NIC handle was last opened. The
 * state is two atomic words, which signal handlers may read: a file is identified by a hash.
 */
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/os.h"
#include "os/os_atomic.h"
#include "os/posix/signals.h"

enum { NOTHING = 0, FIRST = 1 }; /* identities are FIRST and above */

static uint32_t chosen;       /* atomic: the identity of the file that lines go to by default */
static uint32_t is_asked_for; /* atomic: lines go to descriptor 2, whatever it is */

/* Returns the hash of the file behind descriptor 2; NOTHING: it is not open. */
static uint32_t identify_stderr(mode_t *mode)
{
    struct stat st;
    if (fstat(STDERR_FILENO, &st) != 0) {
        *mode = 0;
        return NOTHING;
    }
    uint64_t both = (uint64_t)st.st_ino * UINT64_C(0x9E3779B97F4A7C15) + (uint64_t)st.st_dev;
    uint32_t hash = (uint32_t)(both >> 32 ^ both);
    *mode = st.st_mode;
    return hash < FIRST ? FIRST : hash;
}

void vipl_error_output_begin(bool asked)
{
    mode_t mode;
    int saved = errno;
    uint32_t now = identify_stderr(&mode);
    bool is_text = S_ISFIFO(mode) || (S_ISCHR(mode) && isatty(STDERR_FILENO) == 1);
    vipl_store_relaxed(&chosen, is_text ? now : NOTHING);
    vipl_store_relaxed(&is_asked_for, asked);
    errno = saved;
}

bool vipl_error_output_is_open(void)
{
    mode_t mode;
    int saved = errno;
    uint32_t which = vipl_load_relaxed(&chosen);
    bool open = vipl_load_relaxed(&is_asked_for) != 0 || (which >= FIRST && identify_stderr(&mode) == which);
    errno = saved;
    return open;
}

void vipl_write_text(int fd, const char *text, size_t length)
{
    sigset_t both;
    sigset_t before;
    sigset_t pending;
    int saved = errno;
    int cancel = vipl_cancel_off();
    sigemptyset(&both);
    sigaddset(&both, SIGPIPE);
    sigaddset(&both, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &both, &before);
    sigpending(&pending);
    while (length > 0) {
        ssize_t n = write(fd, text, length);
        if (n < 0 && errno != EINTR) {
            vipl_signal_consume(SIGPIPE, &pending);
            vipl_signal_consume(SIGXFSZ, &pending);
            break;
        }
        text += n < 0 ? 0 : n;
        length -= n < 0 ? 0 : (size_t)n;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    vipl_cancel_restore(cancel);
    errno = saved;
}

void vipl_print_error(const char *text, size_t length)
{
    if (vipl_error_output_is_open()) {
        vipl_write_text(STDERR_FILENO, text, length);
    }
}
