/* SPDX-License-Identifier: MIT */
/* The device of this process's streams. */
#include <string.h>

#include "base/config.h"
#include "base/lock_rank.h"
#include "base/log.h"
#include "sockets/conn.h"
#include "vipl/posix.h"

static struct {
    struct vipl_mutex lock;      /* rank SOCK_DEVICE */
    struct vipl_stream_nic *nic; /* guarded by lock */
    uint32_t generation;         /* guarded by lock: of the process that has tried to open it */
    uint32_t named;              /* atomic: 1 when `name` is set */
    char name[SOCK_DEVICE_BYTES];
} device = {.lock = VIPL_MUTEX_INIT(VIPL_RANK_SOCK_DEVICE)};

const char *sock_device_name(void)
{
    if (vipl_load_acquire(&device.named) == 0) {
        char name[SOCK_DEVICE_BYTES];
        if (!vipl_config_text("VIPL_SOCKETS_DEVICE", name, sizeof(name))) {
            strcpy(name, "loopback");
        }
        memcpy(device.name, name, sizeof(name)); /* any thread writes the same */
        vipl_store_release(&device.named, 1);
    }
    return device.name;
}

/* With loopback nothing has to move while the program makes no call: a peer fetches what was sent
 * by itself. A thread of the library would only stand between the peer and the thread that
 * waits. */
static VIP_ULONG open_flags(void)
{
    return strncmp(sock_device_name(), "loopback", strlen("loopback")) == 0 ? VIPX_INLINE : 0;
}

static void open_locked(void)
{
    VIP_RETURN reason;
    device.nic = NULL; /* the parent's, if this process was forked */
    device.generation = vipl_fork_generation();
    if (vipl_stream_nic_open(sock_device_name(), open_flags(), &device.nic, &reason) != 0) {
        vipl_log(VIPL_LOG_ERROR, "sockets: the device %s cannot be opened (%s): connections stay with TCP",
                 sock_device_name(), VipxStrError(reason));
    }
}

struct vipl_stream_nic *sock_device(void)
{
    vipl_mutex_lock(&device.lock);
    if (device.generation != vipl_fork_generation()) {
        open_locked();
    }
    struct vipl_stream_nic *nic = device.nic;
    vipl_mutex_unlock(&device.lock);
    return nic;
}

void sock_device_forked(void)
{
    vipl_mutex_init(&device.lock, VIPL_RANK_SOCK_DEVICE);
}
