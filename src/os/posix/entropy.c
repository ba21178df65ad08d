/* SPDX-License-Identifier: MIT */
/* Unpredictable bytes: getentropy(), which every one of these systems has. */
#include <errno.h>
#include <unistd.h>
#ifdef __APPLE__
#include <sys/random.h>
#endif

#include "os/os.h"

enum { MOST_AT_ONCE = 256 };

int vipl_entropy(void *bytes, size_t length)
{
    char *p = bytes;
    while (length > 0) {
        size_t n = length < MOST_AT_ONCE ? length : MOST_AT_ONCE;
        if (getentropy(p, n) != 0) {
            return errno;
        }
        p += n;
        length -= n;
    }
    return 0;
}
