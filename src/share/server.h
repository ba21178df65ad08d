/* SPDX-License-Identifier: MIT */
/*
 * Inside the keeper (share.h): what it keeps, and for whom.
 *
 * An object has a set of holders. Using it takes no reference: its real handle is looked up under the lock and
 * used outside it, and if it ends meanwhile the call on it says VIP_INVALID_PARAMETER as in any program. So the
 * object's own memory is touched under the lock only, but by who ends it.
 */
#ifndef VIPL_SHARE_SERVER_H
#define VIPL_SHARE_SERVER_H

#include "os/os_mutex.h"
#include "share/shm.h"

/* All guarded by the objects' lock, unless constant. */
struct vipl_keeper_object {
    void *handle;   /* constant: the holders' */
    void *real;     /* constant: this process's; a region's and a block's are NULL */
    void *nic;      /* constant: the holders' NIC handle it was made on, or NULL */
    uint32_t kind;  /* constant */
    uint32_t users; /* queues on a completion queue */
    bool ending;    /* its last holder is about to end it */
    uint32_t holders[VIPL_SHARE_HOLDERS / 32];
    unsigned last;               /* who is about to end it */
    struct vipl_keeping *queues; /* constant: a VI's two */
    void *cqs[2];                /* constant: a VI's, the holders' handles or NULL */
    struct vipl_cq_keeping *cq;  /* constant: a completion queue's */
    unsigned char *address;      /* constant: of a region or block */
    size_t bytes;                /* constant */
    VIP_MEM_HANDLE memory;       /* constant: of a region */
};

/* --- server_objects.c ------------------------------------------------------------------------------------ */

enum vipl_keeper_dropped { VIPL_KEEPER_NOT_HELD, VIPL_KEEPER_DROPPED, VIPL_KEEPER_WAS_LAST };

void vipl_keeper_objects_init(struct vipl_arena *arena);
/* Room for an object of a kind, not to be found yet; NULL: there is none. `most`: how many there may be. */
struct vipl_keeper_object *vipl_keeper_object_new(uint32_t kind, uint32_t most);
/* It is there from now on, and `holder` holds it. */
void vipl_keeper_object_enter(struct vipl_keeper_object *object, unsigned holder);
void vipl_keeper_object_free(struct vipl_keeper_object *object);
void *vipl_keeper_real(uint32_t kind, const void *handle); /* NULL: no such object */
/* What a holder may use; NULL: to it the handle is none. */
void *vipl_keeper_held(uint32_t kind, const void *handle, unsigned holder);
void *vipl_keeper_handle_of(uint32_t kind, const void *real); /* the holders' handle; NULL: none */
void *vipl_keeper_handle_of_nic(uint32_t kind,
                                const void *handle); /* on which an object was made; NULL: none */
void *vipl_keeper_region(const void *nic, const void *address,
                         VIP_MEM_HANDLE memory); /* its handle, or NULL */
void *vipl_keeper_block(const void *address);    /* its handle, or NULL */
/* Drops a holder's reference. WAS_LAST: the object is the caller's, to end or to give back. */
enum vipl_keeper_dropped vipl_keeper_drop(uint32_t kind, const void *handle, unsigned holder,
                                          struct vipl_keeper_object **out);
bool vipl_keeper_is_held(uint32_t kind, const void *handle, unsigned holder);
void vipl_keeper_keep_on(struct vipl_keeper_object *object, unsigned holder); /* it could not be ended */
void vipl_keeper_inherit(unsigned parent, unsigned child);
/* Drops a holder's references to what others hold, too: nothing ends by that. */
void vipl_keeper_leave_to_others(unsigned holder);
/* One more queue (by: 1) or one less (-1) on a completion queue; NULL: there is none such on the NIC handle. */
struct vipl_cq_keeping *vipl_keeper_use_cq(const void *handle, const void *nic, int by);
/* The next object of a kind (and NIC handle, if one is given) that `holder` holds, or NULL. */
void *vipl_keeper_next_held(uint32_t kind, const void *nic, unsigned holder);
/* Under the lock. */
void vipl_keeper_for_each(uint32_t kind, void (*visit)(struct vipl_keeper_object *object));
/* Registers a handler; false: its holder has no such completion queue. */
bool vipl_keeper_cq_notify(const void *handle, struct vipl_keeper_notify *notify);
/* An entry is handed on; false: the holder has no such completion queue. */
bool vipl_keeper_cq_hand_on(unsigned holder, const void *handle, uint32_t code);
/* The descriptors of a completion queue's bell, made if need be. */
void vipl_keeper_cq_bell(unsigned holder, const void *handle, int fds[2]);

/* --- server_heap.c ---------------------------------------------------------------------------------------- */

void vipl_keeper_heap_init(const struct vipl_heap *shared);
const struct vipl_heap *vipl_keeper_heap(void); /* all of it, where holders cannot write */
/* So many bytes or more: `taken` says how many; NULL: there are not as many in a row. */
unsigned char *vipl_keeper_heap_take(size_t bytes, size_t *taken);
void vipl_keeper_heap_give(unsigned char *address, size_t bytes); /* clears them, too */

/* --- server_events.c ------------------------------------------------------------------------------------- */

void vipl_keeper_events_init(struct vipl_arena *arena);
/* A handler is to be called in its holder. What does not fit there is counted and logged. */
void vipl_keeper_event(unsigned holder, const struct vipl_shared_event *event);
VIP_RETURN vipl_keeper_notify(unsigned holder, struct vipl_call *call);
VIP_RETURN vipl_keeper_notify_cq(unsigned holder, struct vipl_call *call);
VIP_RETURN vipl_keeper_error_handler(unsigned holder, struct vipl_call *call);
void vipl_keeper_forget_handlers(unsigned holder);             /* everywhere: it has ended */
void vipl_keeper_forget_nic(const void *nic, unsigned holder); /* its handlers on a NIC handle */

/* --- server_calls.c --------------------------------------------------------------------------------------- */

bool vipl_keeper_needs_rights(const struct vipl_call *call);
void vipl_keeper_make_call(unsigned holder, struct vipl_call *call);
/* Drops all of a holder's references, on one NIC handle or on everything, and ends what nobody holds. False: a peer that is
 * stopped may still write to a region, which is held as before, and so is what comes after it; again later. */
bool vipl_keeper_release(unsigned holder, const void *nic);
void vipl_keeper_calls_init(struct vipl_arena *shared);

#endif
