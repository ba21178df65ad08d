/* SPDX-License-Identifier: MIT */
/*
 * Handles are not pointers: a handle holds a slot of one process-wide table and the generation of
 * the object in it. Looking one up takes no lock and two loads; what it returns is only a hint that
 * the caller confirms under the object's lock (object's own handle == the one asked for), since
 * the object may be destroyed meanwhile; its memory may not (pool.h).
 *
 * A forked child starts with an empty table and other slots: no inherited handle is found.
 */
#ifndef VIPL_CORE_HANDLE_H
#define VIPL_CORE_HANDLE_H

#include <stdbool.h>

enum vipl_kind { VIPL_KIND_NIC = 1, VIPL_KIND_VI, VIPL_KIND_CQ, VIPL_KIND_PTAG, VIPL_KIND_CONN };

/* A handle for a new object, NULL if the table is full or memory is short. */
void *vipl_handle_create(enum vipl_kind kind, void *object);
void vipl_handle_destroy(void *handle);
void *vipl_handle_find(enum vipl_kind kind, const void *handle); /* NULL: not a live handle of that kind */
void vipl_handle_abandon(void);                                  /* in a forked child */

#endif
