/* SPDX-License-Identifier: MIT */
/*
 * The hook's part of an opened device, and what its data path does when there is a fault plan. For
 * backend_hook*.c only; every other file sees the two sides of it, backend.h and hook.h.
 */
#ifndef VIPL_HOOK_HOOK_NIC_H
#define VIPL_HOOK_HOOK_NIC_H

#include "core/backend.h"
#include "hook/check.h"
#include "hook/delay.h"
#include "hook/faults.h"
#include "hook/trace.h"

/* An opened device with the hook around it. */
struct vipl_be_nic {
    struct vipl_nic *core;          /* constant */
    const struct vipl_backend *ops; /* constant: the backend's */
    struct vipl_be_nic *be;         /* constant: the backend's */
    struct vipl_faults faults;
    struct vipl_delays delays;
    struct vipl_trace trace;
    struct vipl_checks checks;
};

/* A send, as the plan has it. The VI's send lock is held. */
enum vipl_posted vipl_hook_send(struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_send *send);
/* The device was polled: delayed sends whose time has come go on. No lock held. */
void vipl_hook_resume(struct vipl_be_nic *be);

#endif
