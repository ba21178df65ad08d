/* SPDX-License-Identifier: MIT */
/* What physical pages memory has. */
#include "core/cache_verify.h"

#include <errno.h>

#include "base/log.h"
#include "os/os.h"

enum { BATCH = 128 }; /* pages that a hit asks the system about at once */

struct vipl_frames {
    uintptr_t first; /* of the first page */
    size_t count;
    uint64_t physical[];
};

struct vipl_frames *vipl_frames_read(uintptr_t first, uintptr_t end)
{
    uintptr_t page = (uintptr_t)vipl_page_bytes();
    uintptr_t from = first & ~(page - 1);
    size_t count = (size_t)((end - 1 - from) / page + 1);
    struct vipl_frames *frames = vipl_alloc(sizeof(*frames) + count * sizeof(frames->physical[0]));
    if (frames == NULL) {
        return NULL;
    }
    frames->first = from;
    frames->count = count;
    int error = vipl_memory_populate(from, from + count * page);
    error = error == 0 ? vipl_physical_pages((const void *)from, count, frames->physical) : error;
    if (error != 0) {
        vipl_log_os(VIPL_LOG_INFO, "VIPL_CACHE=verify: pages cannot be compared", error);
        vipl_free(frames);
        return NULL;
    }
    return frames;
}

void vipl_frames_free(struct vipl_frames *frames)
{
    vipl_free(frames);
}

/* A page that is not there now has the address 0, and does not count. */
static bool are_same(const uint64_t *now, const uint64_t *then, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (now[i] != 0 && now[i] != then[i]) {
            return false;
        }
    }
    return true;
}

bool vipl_frames_are(const struct vipl_frames *frames, uintptr_t first, uintptr_t end)
{
    uint64_t now[BATCH];
    uintptr_t page = (uintptr_t)vipl_page_bytes();
    for (uintptr_t at = first & ~(page - 1); frames != NULL && at < end; at += BATCH * page) {
        size_t left = (size_t)((end - 1 - at) / page + 1);
        size_t count = left < BATCH ? left : BATCH;
        int error = vipl_physical_pages((const void *)at, count, now);
        if ((error == 0 || error == EFAULT) &&
            !are_same(now, &frames->physical[(at - frames->first) / page], count)) {
            return false;
        }
    }
    return true;
}
