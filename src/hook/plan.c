/* SPDX-License-Identifier: MIT */
/* Numbers, results and delays of sends under a fault plan. */
#include "hook/plan.h"

#include "base/lock_rank.h"
#include "core/backend_up.h"
#include "core/nic.h"
#include "core/vi.h"

void vipl_plan_init(struct vipl_plan *plan, struct vipl_nic *core, const char *text)
{
    plan->core = core;
    vipl_mutex_init(&plan->lock, VIPL_RANK_BACKEND_TX);
    vipl_faults_read(&plan->faults, text);
}

/* --- delayed sends --- */

/* A delayed send gets VIPL_POSTED_AGAIN until the device has been polled a few times. A VI has at
 * most one entry, for its next send to be executed, and none after it has left CONNECTED. If the
 * table is full, a send is not delayed. While there are entries, the NIC handle has no poll filter,
 * so that the hook sees each poll. */

/* Finds the entry of a VI, or a free one if `vi` is NULL. */
static struct vipl_delayed *entry_of_locked(struct vipl_plan *plan, const struct vipl_vi *vi)
{
    for (unsigned i = 0; i < VIPL_MAX_DELAYED; i++) {
        if (plan->delayed[i].vi == vi) {
            return &plan->delayed[i];
        }
    }
    return NULL;
}

static void set_waiting_locked(struct vipl_plan *plan, uint32_t waiting)
{
    vipl_store_relaxed(&plan->waiting, waiting);
    vipl_store_ptr(&plan->core->poll_filter, waiting > 0 ? NULL : plan->poll_filter);
}

static void free_entry_locked(struct vipl_plan *plan, struct vipl_delayed *entry)
{
    entry->vi = NULL;
    set_waiting_locked(plan, plan->waiting - 1);
}

/* Returns true if the VI's next send is delayed and still waits for polls. */
static bool is_delayed(struct vipl_plan *plan, const struct vipl_vi *vi)
{
    vipl_mutex_lock(&plan->lock);
    bool waits = entry_of_locked(plan, vi) != NULL;
    vipl_mutex_unlock(&plan->lock);
    return waits;
}

/* Delays the VI's next send. False: the table is full. */
static bool delay(struct vipl_plan *plan, struct vipl_vi *vi, uint32_t polls)
{
    vipl_mutex_lock(&plan->lock);
    struct vipl_delayed *entry = entry_of_locked(plan, NULL);
    if (entry != NULL) {
        *entry = (struct vipl_delayed){.vi = vi, .polls = polls};
        set_waiting_locked(plan, plan->waiting + 1);
    }
    vipl_mutex_unlock(&plan->lock);
    return entry != NULL;
}

static void forget_delayed(struct vipl_plan *plan, const struct vipl_vi *vi)
{
    vipl_mutex_lock(&plan->lock);
    struct vipl_delayed *entry = entry_of_locked(plan, vi);
    if (entry != NULL) {
        free_entry_locked(plan, entry);
    }
    vipl_mutex_unlock(&plan->lock);
}

void vipl_plan_polled(struct vipl_plan *plan)
{
    struct vipl_vi *due[VIPL_MAX_DELAYED];
    unsigned count = 0;
    vipl_mutex_lock(&plan->lock);
    for (unsigned i = 0; i < VIPL_MAX_DELAYED; i++) {
        struct vipl_delayed *entry = &plan->delayed[i];
        if (entry->vi != NULL && --entry->polls == 0) {
            due[count++] = entry->vi;
            free_entry_locked(plan, entry);
        }
    }
    vipl_mutex_unlock(&plan->lock);
    /* a VI that was destroyed meanwhile has nothing to send */
    for (unsigned i = 0; i < count; i++) {
        vipl_up_send_resume(due[i]);
    }
}

/* --- numbers --- */

static uint32_t number_of(struct vipl_plan *plan, struct vipl_vi *vi)
{
    if (vi->plan.number == 0) {
        vi->plan.number = vipl_fetch_add(&plan->faults.sends, 1) + 1;
    }
    return vi->plan.number;
}

static void forget_number(struct vipl_vi *vi)
{
    vi->plan = (struct vipl_vi_plan){.number = 0};
}

bool vipl_plan_passes(struct vipl_plan *plan, struct vipl_vi *vi)
{
    struct vipl_send_faults faults;
    if (plan->faults.count == 0) {
        return true;
    }
    vipl_faults_of_send(&plan->faults, number_of(plan, vi), &faults);
    return !vipl_faults_strike(&faults);
}

void vipl_plan_passed(struct vipl_vi *vi)
{
    forget_number(vi);
}

void vipl_plan_revoke(struct vipl_plan *plan, struct vipl_vi *vi)
{
    if (vi->plan.delayed) {
        forget_delayed(plan, vi);
    }
    if (vi->plan.number != 0) { /* 0: later sends have numbers already */
        (void)vipl_compare_exchange(&plan->faults.sends, vi->plan.number, vi->plan.number - 1);
    }
    forget_number(vi);
}

/* --- results: a failure of the connection is marked under the VI's send lock (vipl_up_fail()) - */

static void report_event(struct vipl_plan *plan, struct vipl_vi *vi, const struct vipl_send *send,
                         uint32_t code)
{
    VIP_ERROR_DESCRIPTOR error = {
        .NicHandle = plan->core->public_handle,
        .ViHandle = vi->handle,
        .ResourceCode = VIP_RESOURCE_VI,
        .ErrorCode = (VIP_ERROR_CODE)code,
    };
    if (code == VIP_ERROR_CATASTROPHIC) {
        error.ViHandle = NULL;
        error.ResourceCode = VIP_RESOURCE_NIC;
    } else if (code == VIP_ERROR_COMP_PROT && vi->send.cq != NULL) {
        error.ResourceCode = VIP_RESOURCE_CQ;
        error.CQHandle = vi->send.cq->handle;
    } else if (code == VIP_ERROR_COMP_PROT || code == VIP_ERROR_POST_DESC) {
        error.ResourceCode = VIP_RESOURCE_DESCRIPTOR;
        error.DescriptorPtr = vipl_queue_at(&vi->send, send->sequence)->descriptor;
        error.OpCode = vipl_send_status_op[send->op];
    }
    vipl_error_report(plan->core, &error);
}

/* Returns true if the plan decides the result of the send, and false if the backend does. A lost
 * message is a success for an unreliable sender; a reliable transport that loses a message has
 * failed. */
static bool decides_result(const struct vipl_send_faults *faults, struct vipl_send *send)
{
    uint32_t status = faults->status;
    if (faults->drop && send->reliability != VIP_SERVICE_UNRELIABLE) {
        status |= VIP_STATUS_TRANSPORT_ERROR;
    }
    bool decided = faults->drop || status != 0;
    if (decided) {
        send->status = status;
    }
    return decided;
}

enum vipl_posted vipl_plan_send(struct vipl_plan *plan, const struct vipl_backend *ops,
                                struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_send *send)
{
    struct vipl_send_faults faults;
    if (vi->plan.delayed && is_delayed(plan, vi)) {
        return VIPL_POSTED_AGAIN;
    }
    vipl_faults_of_send(&plan->faults, number_of(plan, vi), &faults);
    if (faults.polls > 0 && !vi->plan.delayed && delay(plan, vi, faults.polls)) {
        vi->plan.delayed = true;
        vipl_up_wake(plan->core);
        return VIPL_POSTED_AGAIN;
    }
    enum vipl_posted posted = decides_result(&faults, send) ? VIPL_POSTED_DONE : ops->post_send(be, vi, send);
    if (posted == VIPL_POSTED_AGAIN) {
        return posted;
    }
    forget_number(vi);
    for (uint32_t code = 0; faults.events >> code != 0; code++) {
        if ((faults.events >> code & 1) != 0) {
            report_event(plan, vi, send, code);
        }
    }
    if (faults.disconnect) {
        vipl_vi_fail(vi, VIP_ERROR_CONN_LOST);
    }
    return posted;
}
