/* SPDX-License-Identifier: MIT */
/* The thread that begins input and output, and the completion port at which it hears of the end. */
#include "os/windows/port.h"

#include <errno.h>

enum { KEY_DONE = 1, KEY_BEGIN = 2 }; /* what a packet of the port says */

static HANDLE port; /* constant once `begun` */
static INIT_ONCE begun = INIT_ONCE_STATIC_INIT;

static void serve(void *arg)
{
    (void)arg;
    for (;;) {
        DWORD bytes = 0;
        ULONG_PTR key = 0;
        OVERLAPPED *overlapped = NULL;
        BOOL good = GetQueuedCompletionStatus(port, &bytes, &key, &overlapped, INFINITE);
        DWORD error = good ? ERROR_SUCCESS : GetLastError();
        struct vipl_io *io = (struct vipl_io *)(void *)overlapped;
        if (io != NULL && key == KEY_BEGIN) {
            io->begin(io);
        } else if (io != NULL) {
            io->done(io, error, bytes);
        }
    }
}

static BOOL CALLBACK begin(INIT_ONCE *once, void *error, void **result)
{
    struct vipl_thread thread;
    (void)once;
    (void)result;
    port = vipl_resource_fails(EMFILE) ? NULL : CreateIoCompletionPort(INVALID_HANDLE_VALUE, NULL, 0, 1);
    *(int *)error = port == NULL ? EMFILE : vipl_thread_start(&thread, serve, NULL);
    if (*(int *)error != 0) {
        if (port != NULL) {
            (void)CloseHandle(port);
        }
        return FALSE;
    }
    vipl_thread_detach(&thread);
    return TRUE;
}

int vipl_io_add(HANDLE handle)
{
    int error = 0;
    if (!InitOnceExecuteOnce(&begun, begin, &error, NULL)) {
        return error;
    }
    return CreateIoCompletionPort(handle, port, KEY_DONE, 0) == NULL ? vipl_errno_of(GetLastError()) : 0;
}

int vipl_io_begin(struct vipl_io *io)
{
    return PostQueuedCompletionStatus(port, 0, KEY_BEGIN, &io->overlapped) ? 0
                                                                           : vipl_errno_of(GetLastError());
}
