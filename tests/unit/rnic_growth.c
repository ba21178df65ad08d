/* SPDX-License-Identifier: MIT */
#include "rnic_growth.h"

#include <errno.h>
#include <string.h>

#include "backends/rnic/data.h"
#include "base/lock_rank.h"

static struct {
    struct rnic_nic nic;
    struct rnic_vi vi;
    unsigned more, made;
} unit;

static void post_without_room(void);

static void unit_unlock(struct vipl_mutex *lock)
{
    vipl_mutex_unlock(lock);
    if (lock == &unit.nic.rx) {
        unit.made++;
        if (unit.more > 0) {
            unit.more--;
            post_without_room();
        }
    }
}

/* The names of what it calls, and of what it has for others, which are in the library as well. */
#define vipl_mutex_unlock unit_unlock
#define vipl_rnic_data_send unit_send
#define vipl_rnic_data_recv unit_recv
#define vipl_rnic_data_init unit_init
#define vipl_rnic_data_forget unit_forget
#define vipl_rnic_data_hold unit_hold
#define vipl_rnic_data_open unit_open_vi
#define vipl_rnic_data_shut unit_shut
#define vipl_rnic_data_complete unit_complete
#define vipl_rnic_data_make_room unit_make_room
enum vipl_posted unit_send(struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_send *send);
enum vipl_posted unit_recv(struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_recv *recv);
void unit_init(struct rnic_vi *rv);
void unit_forget(struct rnic_nic *nic, struct rnic_vi *rv);
void unit_hold(struct rnic_vi *rv);
void unit_open_vi(struct rnic_nic *nic, struct rnic_vi *rv);
void unit_shut(struct rnic_vi *rv);
bool unit_complete(struct rnic_nic *nic);
void unit_make_room(struct rnic_nic *nic);
#include "backends/rnic/data.c"

static void post_without_room(void)
{
    (void)posted(&unit.vi, EAGAIN);
}

unsigned unit_growth(unsigned times, bool *left)
{
    memset(&unit, 0, sizeof(unit));
    vipl_mutex_init(&unit.nic.rx, VIPL_RANK_BACKEND_RX);
    vipl_mutex_init(&unit.nic.wanting_lock, VIPL_RANK_BACKEND_TX);
    vipl_list_init(&unit.nic.wanting);
    unit.vi.nic = &unit.nic;
    unit_init(&unit.vi);
    unit.more = times - 1;
    post_without_room();
    vipl_deferred_run();
    *left = !vipl_list_empty(&unit.nic.wanting) || unit.nic.has_wanting != 0;
    return unit.made;
}
