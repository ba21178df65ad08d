/* SPDX-License-Identifier: MIT */
/* The devices of this process's streams. */
#include <string.h>

#include "base/config.h"
#include "base/lock_rank.h"
#include "base/log.h"
#include "os/os.h"
#include "os/os_atomic.h"
#include "os/os_mutex.h"
#include "sockets/device.h"
#include "sockets/hello.h"
#include "stream/stream.h"
#include "vipl/posix.h"

enum { HANDLES = 32, NAMES = 4 };

struct device {
    struct vipl_stream_nic *nic; /* NULL: not opened, or it cannot be */
    bool is_driven;              /* by a thread of the library */
};

/* The NIC handles of one device. */
struct named {
    const char *name; /* constant once set */
    struct device all[HANDLES];
    bool failed; /* it could not be opened: that is not tried again */
};

/* Guarded by lock. */
static struct {
    struct vipl_mutex lock; /* rank SOCK_DEVICE */
    struct named names[NAMES];
    uint32_t generation; /* of the process whose devices these are */
    bool has_complained; /* that there are too many names */
} devices = {.lock = VIPL_MUTEX_INIT(VIPL_RANK_SOCK_DEVICE)};

static struct {
    uint32_t known; /* atomic: 1 when `text` is set */
    char text[SOCK_DEVICE_BYTES];
} name_of_device;

static uint32_t threads;                 /* atomic, relaxed: those that have a device */
static _Thread_local uint32_t own_place; /* of the calling thread's NIC handles, plus 1; 0: none yet */

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

/* A thread that waits polls a little first if the user asks for that: with many connections, or
 * with a new one for each request, polling may cost more than it saves. With loopback nothing has
 * to move while the program makes no call: a peer fetches what was sent by itself. A thread of the
 * library would only stand between the peer and the thread that waits. */
static VIP_ULONG open_flags(const char *name)
{
    return (vipl_environment("VIPL_SPIN_US") != NULL ? VIPX_SPIN : 0) |
           (sock_device_is_local(name) ? VIPX_INLINE : 0);
}

static void open_locked(struct named *named, struct device *device)
{
    VIP_RETURN reason;
    if (vipl_stream_nic_open(named->name, open_flags(named->name), &device->nic, &reason) != 0) {
        named->failed = true;
        vipl_log(VIPL_LOG_ERROR, "sockets: the device %s cannot be opened (%s): connections stay with TCP",
                 named->name, VipxStrError(reason));
    }
}

/* Returns the row of a device; NULL: there are too many of them. */
static struct named *find_locked(const char *name)
{
    for (unsigned i = 0; i < NAMES; i++) {
        struct named *named = &devices.names[i];
        if (named->name == NULL) {
            named->name = name;
        }
        if (strcmp(named->name, name) == 0) {
            return named;
        }
    }
    if (!devices.has_complained) {
        vipl_log(VIPL_LOG_ERROR, "sockets: more than %d devices: connections over %s stay with TCP", NAMES,
                 name);
        devices.has_complained = true;
    }
    return NULL;
}

struct vipl_stream_nic *sock_device(const char *name)
{
    if (own_place == 0) {
        own_place = 1 + vipl_fetch_add(&threads, 1) % HANDLES;
    }
    vipl_mutex_lock(&devices.lock);
    if (devices.generation != vipl_fork_generation()) { /* they are the parent's */
        memset(devices.names, 0, sizeof(devices.names));
        devices.generation = vipl_fork_generation();
    }
    struct named *named = find_locked(name);
    struct device *device = named == NULL ? NULL : &named->all[own_place - 1];
    if (device != NULL && device->nic == NULL && !named->failed) {
        open_locked(named, device);
    }
    struct vipl_stream_nic *nic = device == NULL ? NULL : device->nic;
    vipl_mutex_unlock(&devices.lock);
    return nic;
}

static struct device *of_nic_locked(const struct vipl_stream_nic *nic)
{
    for (unsigned i = 0; i < NAMES * HANDLES; i++) {
        struct device *device = &devices.names[i / HANDLES].all[i % HANDLES];
        if (device->nic == nic) {
            return device;
        }
    }
    return NULL;
}

bool sock_device_claim(struct vipl_stream_nic *nic)
{
    bool claimed = false;
    vipl_mutex_lock(&devices.lock);
    struct device *device = of_nic_locked(nic);
    if (device != NULL && !device->is_driven) {
        device->is_driven = claimed = true;
    }
    vipl_mutex_unlock(&devices.lock);
    return claimed;
}

void sock_device_unclaim(struct vipl_stream_nic *nic)
{
    vipl_mutex_lock(&devices.lock);
    struct device *device = of_nic_locked(nic);
    if (device != NULL) {
        device->is_driven = false;
    }
    vipl_mutex_unlock(&devices.lock);
}

void sock_device_forked(void)
{
    vipl_mutex_init(&devices.lock, VIPL_RANK_SOCK_DEVICE);
}
