/* SPDX-License-Identifier: MIT */
/* References on NIC handles, and progress for the threads that use one. */
#include "core/nic.h"

#include "base/deferred.h"
#include "base/guard.h"
#include "base/handle.h"
#include "core/vi.h"
#include "os/os.h"
#include "os/os_compiler.h"

static void nic_make(void *object)
{
    struct vipl_nic *nic = object;
    vipl_mutex_init(&nic->lock, VIPL_RANK_NIC);
}

static struct vipl_pool nic_pool = VIPL_POOL_INIT(nic_pool, struct vipl_nic, free, nic_make);

void vipl_nic_abandon_pool(void)
{
    vipl_pool_abandon(&nic_pool);
}

struct vipl_nic *vipl_nic_new(void)
{
    return vipl_pool_get(&nic_pool);
}

struct vipl_nic *vipl_nic_get(void *handle)
{
    struct vipl_nic *nic = vipl_handle_find(VIPL_KIND_NIC, handle);
    if (nic == NULL) {
        return NULL;
    }
    vipl_mutex_lock(&nic->lock);
    bool live = nic->handle == handle;
    if (live) {
        vipl_fetch_add(&nic->users, 1);
    }
    vipl_mutex_unlock(&nic->lock);
    return live ? nic : NULL;
}

/* Gives one reference back, and wakes the closing thread. The closing thread waits until only its
 * own reference is left, and that of the service thread if it runs in a handler. */
static void count_down(struct vipl_nic *nic)
{
    uint32_t before = vipl_fetch_add(&nic->users, (uint32_t)-1);
    if (before == 1) {
        vipl_pool_put(&nic_pool, nic);
    } else if (vipl_load_ordered(&nic->closing) != 0) {
        vipl_futex_wake_one(&nic->users);
    }
}

/* Increments the count before it reads `closing`; the closing thread sets `closing` before it reads
 * the count. */
bool vipl_nic_ref(struct vipl_nic *nic)
{
    vipl_fetch_add(&nic->users, 1);
    if (vipl_load_ordered(&nic->closing) != 0) {
        /* not vipl_nic_put(), which runs deferred work: the caller may hold locks */
        count_down(nic);
        return false;
    }
    return true;
}

void vipl_nic_put(struct vipl_nic *nic)
{
    vipl_deferred_run();
    if (vipl_load_relaxed(&nic->service.wanted) != 0 && !vipl_guard_is_safe_call()) {
        vipl_store_relaxed(&nic->service.wanted, 0);
        (void)vipl_service_start(nic); /* on failure the program's own calls make progress */
    }
    count_down(nic);
}

static inline void note_activity(struct vipl_nic *nic)
{
    vipl_store_relaxed(&nic->activity, vipl_load_relaxed(&nic->activity) + 1);
}

bool vipl_nic_poll_fast(struct vipl_nic *nic)
{
    struct vipl_poll_filter *filter = vipl_load_ptr(&nic->poll_filter);
    if (filter == NULL) {
        return false;
    }
    bool enough = filter->poll(filter);
    /* Deferred work runs before a later ordinary poll, which may find the NIC handle closed. */
    vipl_deferred_run();
    if (enough) {
        note_activity(nic);
    }
    return enough;
}

void vipl_nic_progress(struct vipl_nic *nic)
{
    int cancel = vipl_cancel_off();
    note_activity(nic);
    nic->ops->poll(nic->be);
    vipl_deferred_run();
    vipl_cancel_restore(cancel);
}
