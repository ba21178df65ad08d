/* SPDX-License-Identifier: MIT */
/*
 * Checks of the contract of backend.h, which debug builds make at each operation: the duties of
 * core towards a backend (locks, order, life times) and those of a backend towards core. No program
 * can break the contract. A breach is a bug of this library: a message names it, and the process
 * aborts. In other builds the checks do nothing.
 */
#ifndef VIPL_HOOK_CHECK_H
#define VIPL_HOOK_CHECK_H

#include "core/backend.h"
#include "os/os_mutex.h"

enum { VIPL_CHECKED_CONNECTS = 16 };

struct vipl_checks {
    struct vipl_mutex lock; /* rank BACKEND_TX; guards connecting */
    uint32_t vis;           /* atomic: VIs created and not destroyed */
    uint32_t listeners;     /* discriminators listened to; guarded by core's lock of rank LISTEN */
    struct vipl_vi *connecting[VIPL_CHECKED_CONNECTS]; /* VIs inside the operation connect() */
};

#ifdef NDEBUG
enum { VIPL_CHECKING = 0 };
#else
enum { VIPL_CHECKING = 1 };
#endif

void vipl_checks_init(struct vipl_checks *checks); /* in zeroed memory */
/* Checks that this thread holds no lock of the library. */
void vipl_check_unlocked(const char *op);
void vipl_check_table(const struct vipl_backend *backend);
void vipl_check_limits(const struct vipl_limits *limits, const struct vipl_address *address);
void vipl_check_properties(const VIPX_DEVICE_PROPERTIES *properties);
void vipl_check_created(struct vipl_checks *checks);
void vipl_check_destroy(struct vipl_checks *checks, const struct vipl_vi *vi);
void vipl_check_close(struct vipl_checks *checks);
/* Core begins to listen for a discriminator, and stops. */
void vipl_check_listens(struct vipl_checks *checks);
void vipl_check_unlistens(struct vipl_checks *checks);
void vipl_check_connect_begins(struct vipl_checks *checks, struct vipl_vi *vi);
void vipl_check_connect_ends(struct vipl_checks *checks, const struct vipl_vi *vi);
/* Checks that bit `rc` of `allowed` is set. */
void vipl_check_code(const char *op, VIP_RETURN rc, uint32_t allowed);
/* Checks a handle that region_add() has chosen. */
void vipl_check_handle(VIP_MEM_HANDLE handle);
/* Checks an address that memory_alloc() has returned. */
void vipl_check_memory(const void *address);
void vipl_check_held(const char *op, struct vipl_vi *vi);
void vipl_check_revoke(struct vipl_vi *vi);
void vipl_check_send(struct vipl_vi *vi, const struct vipl_send *send);
void vipl_check_short(struct vipl_vi *vi, size_t bytes);
void vipl_check_send_posted(const struct vipl_send *send, enum vipl_posted posted);
void vipl_check_recv(struct vipl_vi *vi, const struct vipl_recv *recv);
void vipl_check_recv_posted(enum vipl_posted posted);

#endif
