/* SPDX-License-Identifier: MIT */
/* Unpredictable bytes: getentropy(), which Linux and the BSDs have. */
#include <errno.h>
#include <unistd.h>

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
