/* SPDX-License-Identifier: MIT */
/* The devices of this process's streams. */
#include <errno.h>
#include <string.h>

#include "base/config.h"
#include "base/lock_rank.h"
#include "base/log.h"
#include "sockets/conn.h"
#include "vipl/posix.h"

enum { DEVICES = 32 };

struct device {
    struct vipl_stream_nic *nic; /* NULL: not opened, or it cannot be */
    bool is_driven;              /* by a thread of the library */
};

/* Guarded by lock. */
static struct {
    struct vipl_mutex lock; /* rank SOCK_DEVICE */
    struct device all[DEVICES];
    uint32_t generation; /* of the process whose devices these are */
    bool failed;         /* a device could not be opened: none is tried again */
} devices = {.lock = VIPL_MUTEX_INIT(VIPL_RANK_SOCK_DEVICE)};

static struct {
    uint32_t known; /* atomic: 1 when `text` is set */
    char text[SOCK_DEVICE_BYTES];
} name_of_device;

static uint32_t threads;                 /* atomic, relaxed: those that have a device */
static _Thread_local uint32_t own_place; /* of the calling thread's device, plus 1; 0: none yet */

const char *sock_device_name(void)
{
    if (vipl_load_acquire(&name_of_device.known) == 0) {
        char name[SOCK_DEVICE_BYTES];
        if (!vipl_config_text("VIPL_SOCKETS_DEVICE", name, sizeof(name))) {
            strcpy(name, "loopback");
        }
        memcpy(name_of_device.text, name, sizeof(name)); /* any thread writes the same */
        vipl_store_release(&name_of_device.known, 1);
    }
    return name_of_device.text;
}

bool sock_device_is_local(void)
{
    return strncmp(sock_device_name(), "loopback", strlen("loopback")) == 0;
}

/* A thread that waits polls a little first if the user asks for that: where both ends are put on
 * one CPU, a poll costs more than it saves. With loopback nothing has to move while the program
 * makes no call: a peer fetches what was sent by itself. A thread of the library would only stand
 * between the peer and the thread that waits. */
static VIP_ULONG open_flags(void)
{
    return (vipl_environment("VIPL_SPIN_US") != NULL ? VIPX_SPIN : 0) |
           (sock_device_is_local() ? VIPX_INLINE : 0);
}

static void open_locked(struct device *device)
{
    VIP_RETURN reason;
    if (vipl_stream_nic_open(sock_device_name(), open_flags(), &device->nic, &reason) != 0) {
        devices.failed = true;
        vipl_log(VIPL_LOG_ERROR, "sockets: the device %s cannot be opened (%s): connections stay with TCP",
                 sock_device_name(), VipxStrError(reason));
    }
}

struct vipl_stream_nic *sock_device(void)
{
    if (own_place == 0) {
        own_place = 1 + vipl_fetch_add(&threads, 1) % DEVICES;
    }
    vipl_mutex_lock(&devices.lock);
    if (devices.generation != vipl_fork_generation()) { /* they are the parent's */
        memset(devices.all, 0, sizeof(devices.all));
        devices.failed = false;
        devices.generation = vipl_fork_generation();
    }
    struct device *device = &devices.all[own_place - 1];
    if (device->nic == NULL && !devices.failed) {
        open_locked(device);
    }
    struct vipl_stream_nic *nic = device->nic;
    vipl_mutex_unlock(&devices.lock);
    return nic;
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

void sock_device_drive(struct vipl_stream_nic *nic)
{
    struct vipl_thread thread;
    int error = 0;
    vipl_mutex_lock(&devices.lock);
    for (unsigned i = 0; i < DEVICES; i++) {
        struct device *device = &devices.all[i];
        if (device->nic == nic && !device->is_driven) {
            error = vipl_thread_start(&thread, drive, nic);
            device->is_driven = error == 0;
            if (device->is_driven) {
                vipl_thread_detach(&thread);
            }
        }
    }
    vipl_mutex_unlock(&devices.lock);
    if (error != 0) {
        char text[128];
        vipl_log(VIPL_LOG_ERROR, "sockets: no thread for a device: %s",
                 vipl_os_error(error, text, sizeof(text)));
    }
}

void sock_device_forked(void)
{
    vipl_mutex_init(&devices.lock, VIPL_RANK_SOCK_DEVICE);
}
