/* SPDX-License-Identifier: MIT */
/* What Windows calls an error. */
#include <errno.h>
#include <string.h>

#include "os/windows/descriptor.h"

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
    case ERROR_NOACCESS:
    case ERROR_PARTIAL_COPY:
        return EFAULT;
    default:
        return EIO;
    }
}

const char *vipl_os_error(int error, char *text, size_t size)
{
    if (strerror_s(text, size, error) != 0) {
        text[0] = '\0';
    }
    return text;
}
