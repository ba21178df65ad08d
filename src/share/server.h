/* SPDX-License-Identifier: MIT */
/*
 * Inside the server (share.h): what it keeps, and for whom.
 *
 * An object has a set of clients. Using it takes no reference: its real handle is looked up under the lock and
 * used outside it, and if it ends meanwhile the call on it says VIP_INVALID_PARAMETER as in any program. So the
 * object's own memory is touched under the lock only, but by who ends it.
 */
#ifndef VIPL_SHARE_SERVER_H
#define VIPL_SHARE_SERVER_H

#include "os/os_mutex.h"
#include "share/shm.h"

/* All guarded by the objects' lock, unless constant. */
struct vipl_server_object {
    void *handle;   /* constant: the clients' */
    void *real;     /* constant: this process's; a region's and a block's are NULL */
    void *nic;      /* constant: the clients' NIC handle it was made on, or NULL */
    uint32_t kind;  /* constant */
    uint32_t users; /* queues on a completion queue */
    bool ending;    /* its last client is about to end it */
    uint32_t clients[VIPL_SHARE_CLIENTS / 32];
    unsigned last;                    /* who is about to end it */
    struct vipl_shared_queue *queues; /* constant: a VI's two */
    void *cqs[2];                     /* constant: a VI's, the clients' handles or NULL */
    struct vipl_shared_cq *cq;        /* constant: a completion queue's */
    unsigned char *address;           /* constant: of a region or block */
    size_t bytes;                     /* constant */
    VIP_MEM_HANDLE memory;            /* constant: of a region */
};

/* --- server_objects.c ------------------------------------------------------------------------------------ */

enum vipl_server_dropped { VIPL_SERVER_NOT_HELD, VIPL_SERVER_DROPPED, VIPL_SERVER_WAS_LAST };

void vipl_server_objects_init(struct vipl_arena *arena);
/* Room for an object of a kind, not to be found yet; NULL: there is none. `most`: how many there may be. */
struct vipl_server_object *vipl_server_object_new(uint32_t kind, uint32_t most);
/* It is there from now on, and `client` holds it. */
void vipl_server_object_enter(struct vipl_server_object *object, unsigned client);
void vipl_server_object_free(struct vipl_server_object *object);
void *vipl_server_real(uint32_t kind, const void *handle); /* NULL: no such object */
/* What a client may use; NULL: to it the handle is none. */
void *vipl_server_held(uint32_t kind, const void *handle, unsigned client);
void *vipl_server_handle_of(uint32_t kind, const void *real); /* the clients' handle; NULL: none */
void *vipl_server_handle_of_nic(uint32_t kind,
                                const void *handle); /* on which an object was made; NULL: none */
void *vipl_server_region(const void *nic, const void *address,
                         VIP_MEM_HANDLE memory); /* its handle, or NULL */
void *vipl_server_block(const void *address);    /* its handle, or NULL */
/* Drops a client's reference. WAS_LAST: the object is the caller's, to end or to give back. */
enum vipl_server_dropped vipl_server_drop(uint32_t kind, const void *handle, unsigned client,
                                          struct vipl_server_object **out);
bool vipl_server_is_held(uint32_t kind, const void *handle, unsigned client);
void vipl_server_keep_on(struct vipl_server_object *object, unsigned client); /* it could not be ended */
void vipl_server_inherit(unsigned parent, unsigned child);
/* Drops a client's references to what others hold, too: nothing ends by that. */
void vipl_server_leave_to_others(unsigned client);
/* One more queue (by: 1) or one less (-1) on a completion queue; NULL: there is none such on the NIC handle. */
struct vipl_shared_cq *vipl_server_use_cq(const void *handle, const void *nic, int by);
/* The next object of a kind (and NIC handle, if one is given) that `client` holds, or NULL. */
void *vipl_server_next_held(uint32_t kind, const void *nic, unsigned client);
/* Under the lock. */
void vipl_server_for_each(uint32_t kind, void (*visit)(struct vipl_server_object *object));
/* Registers a handler; false: its client has no such completion queue. */
bool vipl_server_cq_notify(const void *handle, struct vipl_server_notify *notify);
/* An entry is handed on; false: the client has no such completion queue. */
bool vipl_server_cq_hand_on(unsigned client, const void *handle, uint32_t code);
/* The descriptors of a completion queue's ready_fd, made if need be. */
void vipl_server_cq_bell(unsigned client, const void *handle, int fds[2]);

/* --- server_heap.c ---------------------------------------------------------------------------------------- */

void vipl_server_heap_init(const struct vipl_heap *shared);
const struct vipl_heap *vipl_server_heap(void); /* all of it, where clients cannot write */
/* So many bytes or more: `taken` says how many; NULL: there are not as many in a row. */
unsigned char *vipl_server_heap_take(size_t bytes, size_t *taken);
void vipl_server_heap_give(unsigned char *address, size_t bytes); /* clears them, too */

/* --- server_events.c ------------------------------------------------------------------------------------- */

void vipl_server_events_init(struct vipl_arena *arena);
/* A handler is to be called in its client. What does not fit there is counted and logged. */
void vipl_server_event(unsigned client, const struct vipl_shared_event *event);
VIP_RETURN vipl_server_notify(unsigned client, struct vipl_call *call);
VIP_RETURN vipl_server_notify_cq(unsigned client, struct vipl_call *call);
VIP_RETURN vipl_server_error_handler(unsigned client, struct vipl_call *call);
void vipl_server_forget_handlers(unsigned client);             /* everywhere: it has ended */
void vipl_server_forget_nic(const void *nic, unsigned client); /* its handlers on a NIC handle */

/* --- server_calls.c --------------------------------------------------------------------------------------- */

bool vipl_server_needs_rights(const struct vipl_call *call);
void vipl_server_make_call(unsigned client, struct vipl_call *call);
/* Drops all of a client's references, on one NIC handle or on everything, and ends what nobody holds. False: a peer that is
 * stopped may still write to a region, which is held as before, and so is what comes after it; again later. */
bool vipl_server_release(unsigned client, const void *nic);
void vipl_server_calls_init(struct vipl_arena *shared);

#endif
