/* SPDX-License-Identifier: MIT */
/* Reasons; see tool_reason.h. */
#include "tool_reason.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <vipl/posix.h>

#include "tool_text.h"

enum { MAX = 4, LINE = 256 };

static struct {
    pthread_mutex_t lock;
    bool begun; /* as opening: written while there is one thread */
    bool opening;
    unsigned count; /* guarded by lock, as the lines are */
    char lines[MAX][LINE];
} reasons = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* What is wrong with the settings, or comes up while the device is opened, is for the user at once.
 * Later errors are about connections, of which a tool says itself what became. */
static void hear(VIP_PVOID context, VIPX_LOG_LEVEL level, const char *text)
{
    (void)context;
    if (level == VIPX_LOG_ERROR && reasons.opening) {
        tool_complain("%s", text);
        return;
    }
    pthread_mutex_lock(&reasons.lock);
    if (reasons.count < MAX && level == VIPX_LOG_REASON) {
        snprintf(reasons.lines[reasons.count++], LINE, "%s", text);
    }
    pthread_mutex_unlock(&reasons.lock);
}

void tool_reasons_begin(void)
{
    VIP_ULONG none = 0;

    reasons.opening = true;
    if (!reasons.begun) {
        reasons.begun = true;
        VipxSetLogHandler(VIPX_LOG_REASON, hear, NULL);
        VipxListDevices(NULL, &none); /* names what is wrong with the settings */
    }
}

void tool_reasons_opened(void)
{
    reasons.opening = false;
}

void tool_complain_rc(const char *what, VIP_RETURN rc)
{
    tool_complain("%s: %s: %s", what, VipxStrError(rc), VipxExplainError(rc));
    pthread_mutex_lock(&reasons.lock);
    for (unsigned i = 0; i < reasons.count; i++) {
        tool_complain("  %s", reasons.lines[i]);
    }
    reasons.count = 0;
    pthread_mutex_unlock(&reasons.lock);
}
