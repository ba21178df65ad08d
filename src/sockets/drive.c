/* SPDX-License-Identifier: MIT */
#include "sockets/drive.h"

#include <errno.h>
#include <poll.h>
#include <time.h>

#include "base/log.h"
#include "os/os.h"
#include "sockets/conn.h"
#include "sockets/device.h"

int sock_sleep(struct vipl_stream_nic *nic, struct pollfd *fds, unsigned count, int ms, const sigset_t *mask)
{
    if (nic != NULL) {
        return vipl_stream_nic_wait(nic, fds, count, ms, mask);
    }
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    int rc = ppoll(fds, count, ms < 0 ? NULL : &time, mask);
    return rc > 0 ? VIPL_POLL_OTHERS : rc == 0 ? ETIMEDOUT : errno;
}

static void drive(void *nic)
{
    int rc = 0;
    while (rc == 0 || rc == VIPL_POLL_OTHERS || rc == EINTR) {
        rc = vipl_stream_nic_wait(nic, NULL, 0, -1, NULL);
        sock_handshakes_look();
    }
    vipl_log(VIPL_LOG_ERROR, "sockets: a device cannot be waited for any more: error %d", rc);
}

void sock_drive(struct vipl_stream_nic *nic)
{
    if (!sock_device_claim(nic)) {
        return;
    }
    struct vipl_thread thread;
    int error = vipl_thread_start(&thread, drive, nic);
    if (error == 0) {
        vipl_thread_detach(&thread);
    } else {
        char text[128];
        sock_device_unclaim(nic);
        vipl_log(VIPL_LOG_ERROR, "sockets: no thread for a device: %s",
                 vipl_os_error(error, text, sizeof(text)));
    }
}
