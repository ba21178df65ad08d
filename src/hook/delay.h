/* SPDX-License-Identifier: MIT */
/*
 * Sends that the hook keeps back: told VIPL_POSTED_AGAIN until the device has been polled a few
 * times. Core offers such a send again and again; the table here tells that from a new one. A VI has
 * one entry at most, for the send at the head of what it has not executed, and none once it has
 * left CONNECTED. When the table is full a send is not delayed.
 */
#ifndef VIPL_HOOK_DELAY_H
#define VIPL_HOOK_DELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "os/os_mutex.h"

struct vipl_vi;

enum { VIPL_DELAYS = 64 };

struct vipl_delay {
    struct vipl_vi *vi; /* NULL: free */
    uint32_t sequence;  /* vipl_send.sequence */
    uint32_t number;    /* the send's number in the fault plan */
    uint32_t polls;     /* polls that are still to come; 0: the send may go */
};

struct vipl_delays {
    struct vipl_mutex lock; /* rank BACKEND_TX; guards all below */
    uint32_t used;          /* entries; also read without the lock: 0 is the usual case */
    uint32_t waiting;       /* of them with polls left; likewise */
    struct vipl_delay entries[VIPL_DELAYS];
};

void vipl_delays_init(struct vipl_delays *delays);
/* The entry of this send: its number, 0 if it has none; *polls are those still to come. */
uint32_t vipl_delays_find(struct vipl_delays *delays, const struct vipl_vi *vi, uint32_t sequence,
                          uint32_t *polls);
/* Adds a send that waits for `polls` polls; false: no room. The VI's send lock is held. */
bool vipl_delays_hold(struct vipl_delays *delays, struct vipl_vi *vi, uint32_t sequence, uint32_t number,
                      uint32_t polls);
void vipl_delays_drop(struct vipl_delays *delays, const struct vipl_vi *vi);
/* The device was polled. Returns the VIs whose send may go now, and their number. */
unsigned vipl_delays_polled(struct vipl_delays *delays, struct vipl_vi *due[VIPL_DELAYS]);

#endif
