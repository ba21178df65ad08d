/* SPDX-License-Identifier: MIT */
/* Devices: their names, and the opening and closing of a NIC handle with all its objects. */
#include "core/device.h"

#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/handle.h"
#include "base/iov.h"
#include "base/lock_rank.h"
#include "base/log.h"
#include "core/backend_up.h"
#include "core/cache.h"
#include "core/connect.h"
#include "core/cq.h"
#include "core/listener.h"
#include "core/nic.h"
#include "core/vi.h"
#include "os/os.h"
#include "vipl/posix.h"

/* --- names: the default device, old programs' spellings, configured aliases --- */

static const char *const default_spellings[] = {"VINIC",       "VINIC0",      "nic0",
                                                "/dev/via_lo", "/etc/via_lo", "/dev/clanvi0"};

/* For example VIPL_DEVICE_ALIASES="/dev/clanvi0=tcp:eth0,VINIC1=loopback". */
bool vipl_device_aliases(bool (*each)(void *arg, const char *alias, const char *device), void *arg)
{
    char aliases[1024];
    char *save = NULL;
    vipl_config_text("VIPL_DEVICE_ALIASES", aliases, sizeof(aliases));
    for (char *entry = strtok_r(aliases, ",", &save); entry != NULL; entry = strtok_r(NULL, ",", &save)) {
        char *equals = strchr(entry, '=');
        if (equals == NULL) {
            continue;
        }
        *equals = '\0';
        const char *alias = entry + strspn(entry, " ");
        if (alias[0] != '\0' && each(arg, alias, equals + 1)) {
            return true;
        }
    }
    return false;
}

/* For vipl_device_aliases(): replaces `name` (64 bytes) by `device` if the name is the alias. */
static bool replace_alias(void *name, const char *alias, const char *device)
{
    bool found = strcmp(alias, name) == 0;
    if (found) {
        snprintf(name, 64, "%s", device);
    }
    return found;
}

static bool means_default(const char *device)
{
    for (size_t i = 0; i < sizeof(default_spellings) / sizeof(default_spellings[0]); i++) {
        if (strcmp(device, default_spellings[i]) == 0) {
            return true;
        }
    }
    return device[0] == '\0';
}

static const struct vipl_backend *by_name(const char *device, const char **rest)
{
    size_t n = strcspn(device, ":");
    for (size_t i = 0; vipl_backends[i] != NULL; i++) {
        const char *name = vipl_backends[i]->name;
        if (strlen(name) == n && memcmp(name, device, n) == 0) {
            *rest = device[n] == ':' ? device + n + 1 : device + n;
            return vipl_backends[i];
        }
    }
    return NULL;
}

const struct vipl_backend *vipl_device_find(const char *device, char name[64], const char **rest)
{
    snprintf(name, 64, "%s", device == NULL ? "" : device);
    if (device != NULL && strlen(device) >= 64) {
        return NULL;
    }
    if (!vipl_device_aliases(replace_alias, name) && means_default(name)) {
        if (!vipl_config_text("VIPL_DEVICE", name, 64) || name[0] == '\0') {
            snprintf(name, 64, "%s", vipl_backends[0]->name);
        }
    }
    return by_name(name, rest);
}

/* --- opening --- */

/* Called in a forked child: from now on the child cannot reach the parent's objects, which stay as
 * they are. */
static void forget_parent(void)
{
    vipl_handle_abandon();
    vipl_nic_abandon_pool();
    vipl_vi_abandon_pool();
    vipl_cq_abandon_pool();
    vipl_mem_abandon_pools();
    vipl_cache_abandon();
    vipl_conn_abandon_pool();
    vipl_shm_abandon();
    vipl_futex_abandon();
    for (unsigned i = 0; vipl_backends[i] != NULL; i++) {
        vipl_backends[i]->abandon();
    }
}

static void read_settings(struct vipl_nic *nic)
{
    nic->progress_mode = (enum vipl_progress_mode)vipl_config_word("VIPL_PROGRESS");
    nic->strict_cq = vipl_config_has_word("VIPL_STRICT", "cq");
    nic->restart = vipl_config_number("VIPL_RESTART");
    if (vipl_config_number("VIPL_SAFE_COPY") != 0) {
        vipl_iov_set_safe();
    }
    nic->linger_ms = vipl_config_number("VIPL_LINGER");
}

/* Resets a vipl_nic from the pool, and gives it one reference. A thread with a stale handle may
 * still take the lock, and sees that `handle` is NULL. */
static void reset_nic(struct vipl_nic *nic)
{
    const size_t kept = offsetof(struct vipl_nic, public_handle);
    memset((char *)nic + kept, 0, sizeof(*nic) - kept);
    nic->users = 1;
    nic->generation = vipl_fork_generation();
    vipl_list_init(&nic->vis);
    vipl_list_init(&nic->cqs);
    vipl_list_init(&nic->ptags);
    vipl_list_init(&nic->conns);
    vipl_list_init(&nic->conn_waiters);
    vipl_mutex_init(&nic->listening, VIPL_RANK_LISTEN);
    vipl_list_init(&nic->listeners);
    vipl_mem_init(&nic->mem);
    vipl_mutex_init(&nic->sleepers.lock, VIPL_RANK_WAIT);
    vipl_list_init(&nic->sleepers.followers);
    vipl_mutex_init(&nic->service.lock, VIPL_RANK_SERVICE);
    vipl_list_init(&nic->service.events);
}

static VIP_RETURN open_backend(struct vipl_nic *nic, const char *device)
{
    const char *rest;
    const struct vipl_backend *backend = vipl_device_find(device, nic->name, &rest);
    if (backend == NULL) {
        vipl_log(VIPL_LOG_REASON, "this build has no device \"%s\"", nic->name);
        return VIP_ERROR_RESOURCE;
    }
    VIP_RETURN rc = vipl_backend_open(backend, nic, rest, &nic->ops, &nic->be);
    if (rc == VIP_SUCCESS) {
        nic->ops->limits(nic->be, &nic->limits);
        nic->ops->address(nic->be, &nic->address);
        vipl_store_ptr(&nic->poll_filter,
                       nic->ops->poll_filter == NULL ? NULL : nic->ops->poll_filter(nic->be));
    }
    return rc;
}

static void close_backend(struct vipl_nic *nic)
{
    vipl_store_ptr(&nic->poll_filter, NULL);
    nic->ops->close(nic->be);
}

static VIP_RETURN make_default_ptag(struct vipl_nic *nic)
{
    void *tag;
    VIP_RETURN rc = vipl_ptag_create(nic, &tag);
    if (rc == VIP_SUCCESS) {
        nic->default_ptag = vipl_handle_find(VIPL_KIND_PTAG, tag);
    }
    return rc;
}

static VIP_RETURN open_parts(struct vipl_nic *nic, const char *device)
{
    VIP_RETURN rc = open_backend(nic, device);
    if (rc != VIP_SUCCESS) {
        return rc;
    }
    rc = make_default_ptag(nic);
    if (rc == VIP_SUCCESS && nic->progress_mode == VIPL_PROGRESS_THREAD) {
        rc = vipl_service_start(nic);
    }
    if (rc != VIP_SUCCESS) {
        vipl_service_stop(nic);
        vipl_ptag_drop_all(nic);
        close_backend(nic);
    }
    return rc;
}

int vipl_device_watch_forks(bool *handlers)
{
    *handlers = vipl_config_number("VIPL_ATFORK") != 0;
    return vipl_fork_watch(forget_parent, *handlers);
}

VIP_RETURN vipl_device_open(const char *device, VIP_ULONG flags, void **handle)
{
    bool handlers;
    vipl_barrier_prepare();
    int error = vipl_device_watch_forks(&handlers);
    struct vipl_nic *nic = error == 0 ? vipl_nic_new() : NULL;
    if (nic == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    VIP_RETURN rc = VIP_ERROR_RESOURCE;
    reset_nic(nic);
    read_settings(nic);
    nic->waits_itself = (flags & VIPX_INLINE) != 0;
    if (nic->waits_itself) {
        nic->progress_mode = VIPL_PROGRESS_INLINE;
    }
    nic->quiet = (flags & VIPX_QUIET) != 0;
    nic->listens_in_calls = (flags & VIPX_BRIEF_LISTENER) != 0;
    if ((flags & VIPX_NO_LINGER) != 0) {
        nic->linger_ms = 0;
    }
    if ((flags & VIPX_SPIN) != 0) {
        nic->spin_ns = vipl_config_number("VIPL_SPIN_US") * 1000;
    }
    void *h = vipl_handle_create(VIPL_KIND_NIC, nic);
    if (h == NULL) {
        goto put_nic;
    }
    nic->public_handle = h;
    rc = open_parts(nic, device);
    if (rc != VIP_SUCCESS) {
        goto destroy_handle;
    }
    vipl_mutex_lock(&nic->lock);
    nic->handle = h;
    vipl_mutex_unlock(&nic->lock);
    vipl_log(VIPL_LOG_INFO, "opened %s", nic->name);
    *handle = h;
    return VIP_SUCCESS;

destroy_handle:
    vipl_handle_destroy(h);
put_nic:
    vipl_nic_put(nic);
    return rc;
}

bool vipl_up_waits_itself(const struct vipl_nic *nic)
{
    return nic->waits_itself;
}

/* --- closing --- */

static void log_statistics(struct vipl_nic *nic)
{
    vipl_log(VIPL_LOG_INFO, "closing %s: %u VIs, %u completion queues left", nic->name,
             (unsigned)nic->vi_count, (unsigned)nic->cq_count);
}

static void destroy_vis(struct vipl_nic *nic)
{
    for (;;) {
        vipl_mutex_lock(&nic->lock);
        struct vipl_list *link = nic->vis.next;
        struct vipl_vi *vi = link == &nic->vis ? NULL : VIPL_CONTAINER(link, struct vipl_vi, nic_link);
        void *handle = NULL;
        if (vi != NULL) { /* without a handle: another thread destroys the VI and unlinks it */
            vipl_biased_lock(&vi->send.lock);
            handle = vi->handle;
            vipl_biased_unlock(&vi->send.lock);
        }
        vipl_mutex_unlock(&nic->lock);
        if (vi == NULL) {
            return;
        }
        if (handle != NULL) {
            vipl_vi_close(vi, handle);
        }
    }
}

static void destroy_cqs(struct vipl_nic *nic)
{
    for (;;) {
        vipl_mutex_lock(&nic->lock);
        struct vipl_list *link = nic->cqs.next;
        void *handle = link == &nic->cqs ? NULL : VIPL_CONTAINER(link, struct vipl_cq, nic_link)->handle;
        vipl_mutex_unlock(&nic->lock);
        if (handle == NULL) {
            return;
        }
        vipl_cq_destroy(nic, handle);
    }
}

/* Waits for the calls that still use the NIC. They end soon: their objects are gone, or they see
 * `closing`. */
static void wait_for_users(struct vipl_nic *nic, uint32_t mine)
{
    uint32_t users;
    while ((users = vipl_load_ordered(&nic->users)) > mine) {
        vipl_futex_wait(&nic->users, users);
    }
}

VIP_RETURN vipl_device_close(void *handle)
{
    struct vipl_nic *nic = vipl_nic_get(handle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = nic->ops->regions_end(nic->be);
    if (rc != VIP_SUCCESS) { /* a peer may still access the program's memory */
        vipl_nic_put(nic);
        return rc;
    }
    vipl_mutex_lock(&nic->lock);
    bool mine = nic->handle == handle; /* not closed by another thread meanwhile */
    if (mine) {
        nic->handle = NULL;
        vipl_store_ordered(&nic->closing, 1);
        log_statistics(nic);
        vipl_wake_all_locked(&nic->conn_waiters);
    }
    vipl_mutex_unlock(&nic->lock);
    vipl_nic_put(nic);
    if (!mine) {
        return VIP_INVALID_PARAMETER;
    }
    vipl_handle_destroy(handle);
    bool in_callback = vipl_service_stop(nic);
    destroy_vis(nic);
    destroy_cqs(nic);
    vipl_wake_sleepers(nic);
    /* One reference belongs to the handle, a second one to the service thread if this call comes
     * from a handler of the program. */
    wait_for_users(nic, in_callback ? 2 : 1);
    vipl_cache_end(nic);
    vipl_conns_close(nic);
    vipl_ptag_drop_all(nic);
    vipl_listeners_fini(nic);
    vipl_ready_fd_free(nic->conn_ready_fd);
    close_backend(nic);
    vipl_mem_fini(&nic->mem);
    vipl_free(nic->discovered[0]);
    vipl_nic_put(nic);
    return VIP_SUCCESS;
}
