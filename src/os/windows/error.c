/* SPDX-License-Identifier: MIT */
/* What Windows calls an error. One that has no errno value keeps its number, so that the log has
 * the system's own text for it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "os/windows/descriptor.h"

enum { FROM_WINDOWS = 100000 }; /* added to a number of Windows: above all errno values */

int vipl_errno_of(DWORD error)
{
    switch (error) {
    case ERROR_SUCCESS:
        return 0;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_OUTOFMEMORY:
    case ERROR_COMMITMENT_LIMIT:
    case ERROR_NO_SYSTEM_RESOURCES:
        return ENOMEM;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION:
        return EACCES;
    case ERROR_INVALID_PARAMETER:
        return EINVAL;
    case ERROR_INVALID_HANDLE:
        return EBADF;
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
        return ENOENT;
    case ERROR_TOO_MANY_OPEN_FILES:
        return EMFILE;
    case ERROR_ALREADY_EXISTS:
    case ERROR_FILE_EXISTS:
        return EEXIST;
    case ERROR_BROKEN_PIPE:
    case ERROR_NO_DATA:
    case ERROR_PIPE_NOT_CONNECTED:
        return EPIPE;
    case WSAEWOULDBLOCK:
        return EAGAIN;
    case WSAEADDRINUSE:
        return EADDRINUSE;
    case WSAEADDRNOTAVAIL:
        return EADDRNOTAVAIL;
    case WSAEAFNOSUPPORT:
        return EAFNOSUPPORT;
    case WSAECONNREFUSED:
        return ECONNREFUSED;
    case WSAECONNRESET:
    case WSAENETRESET:
        return ECONNRESET;
    case WSAECONNABORTED:
        return ECONNABORTED;
    case WSAETIMEDOUT:
        return ETIMEDOUT;
    case WSAEHOSTUNREACH:
        return EHOSTUNREACH;
    case WSAENETUNREACH:
        return ENETUNREACH;
    case WSAEMFILE:
        return EMFILE;
    case WSAENOBUFS:
        return ENOMEM;
    case WSAESHUTDOWN:
        return EPIPE;
    case ERROR_NOACCESS:
    case ERROR_PARTIAL_COPY:
        return EFAULT;
    default:
        return error < FROM_WINDOWS ? FROM_WINDOWS + (int)error : EIO;
    }
}

/* The system's text without its end of line; false: it has none. */
static bool text_of_windows(DWORD error, char *text, size_t size)
{
    DWORD length = FormatMessageA(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, error, 0,
                                  text, (DWORD)size, NULL);
    while (length > 0 && (unsigned char)text[length - 1] <= ' ') {
        length--;
    }
    text[length] = '\0';
    return length > 0;
}

const char *vipl_os_error(int error, char *text, size_t size)
{
    const bool of_windows = error >= FROM_WINDOWS;
    const int number = of_windows ? error - FROM_WINDOWS : error;
    if (of_windows ? !text_of_windows((DWORD)number, text, size) : strerror_s(text, size, number) != 0) {
        (void)snprintf(text, size, "error %d", number);
    }
    return text;
}
