/* SPDX-License-Identifier: MIT */
/*
 * The server's objects, and the clients that hold them.
 *
 * An object has a set of clients. Using an object takes no reference: its real handle is looked up
 * under the lock, and used outside it. If the object ends in between, the call on it returns
 * VIP_INVALID_PARAMETER, as in any program. So the memory of an object is accessed under the lock
 * only, except by the thread that ends it.
 */
#ifndef VIPL_SERVER_OBJECTS_H
#define VIPL_SERVER_OBJECTS_H

#include "server/rings.h"
#include "share/arena.h"

/* Kinds of objects besides those of handle.h. Only the server knows their handles; they have the
 * number of VIPL_KIND_REGISTRATION and the next one, because the server has no such object. */
enum { VIPL_KIND_REGION = VIPL_KIND_REGISTRATION, VIPL_KIND_BLOCK, VIPL_SHARE_KINDS };
_Static_assert((unsigned)VIPL_SHARE_KINDS <= (unsigned)VIPL_KIND_SHARED, "a handle has no bit for more");

/* An object. Fields that are not constant are guarded by the objects' lock. */
struct vipl_server_object {
    void *handle;  /* constant: the clients' handle */
    void *real;    /* constant: this process's; NULL for a completion queue, region or block */
    void *nic;     /* constant: the clients' NIC handle that the object was made on, or NULL */
    uint32_t kind; /* 0 until the object is entered */
    /* Atomic, changed under the lock: work queues on a completion queue, which keeps its slot while
     * there are any. */
    uint32_t users;
    bool ending; /* its last client is about to end it, or has ended it */
    bool ended;  /* it has ended, and has no client any more */
    uint32_t clients[VIPL_SHARE_CLIENTS / 32];
    unsigned last;                    /* the client that is about to end it */
    struct vipl_shared_queue *queues; /* constant: a VI's two */
    void *cqs[2];                     /* constant: a VI's completion queues: the clients' handles */
    struct vipl_shared_cq *cq;        /* constant: a completion queue's */
    unsigned char *address;           /* constant: of a region or block */
    size_t bytes;                     /* constant: of a block */
    VIP_MEM_HANDLE memory;            /* constant: of a region */
};

enum vipl_server_dropped { VIPL_SERVER_NOT_HELD, VIPL_SERVER_DROPPED, VIPL_SERVER_WAS_LAST };

void vipl_server_objects_init(struct vipl_arena *arena);
/* Makes an object of a kind, which cannot be found before it is entered. NULL: there is no room, or
 * there are `most` of the kind. `nic`: the clients' NIC handle that it is made on, or NULL. */
struct vipl_server_object *vipl_server_object_new(uint32_t kind, uint32_t most, void *nic);
/* The object can be found from now on, and `client` holds it. */
void vipl_server_object_enter(struct vipl_server_object *object, unsigned client);
void vipl_server_object_free(struct vipl_server_object *object);
/* Whether a client holds an object. *real: the server's own handle of it, or NULL. */
bool vipl_server_held(uint32_t kind, const void *handle, unsigned client, void **real);
/* the server's handle; NULL: there is no such object */
void *vipl_server_real(uint32_t kind, const void *handle);
/* the clients' handle of an object; NULL: none */
void *vipl_server_handle_of(uint32_t kind, const void *real);
/* the NIC handle that an object was made on; NULL: none */
void *vipl_server_handle_of_nic(uint32_t kind, const void *handle);
void *vipl_server_region(const void *nic, const void *address,
                         VIP_MEM_HANDLE memory); /* the clients' handle, or NULL */
void *vipl_server_block(const void *address);    /* the clients' handle, or NULL */
/* Drops a client's reference. VIPL_SERVER_WAS_LAST: the caller has the object, and either ends it
 * and calls vipl_server_object_free(), or calls vipl_server_give_back(). */
enum vipl_server_dropped vipl_server_drop(uint32_t kind, const void *handle, unsigned client,
                                          struct vipl_server_object **out);
void vipl_server_give_back(struct vipl_server_object *object,
                           unsigned client); /* the object cannot be ended now */
void vipl_server_inherit(unsigned parent, unsigned child);
/* Drops a client's references to objects that other clients hold as well: no object
 * ends by that. */
void vipl_server_leave_to_others(unsigned client);
/* A work queue begins to use a completion queue. NULL: there is no such one on the NIC handle. */
struct vipl_shared_cq *vipl_server_use_cq(const void *handle, const void *nic);
void vipl_server_leave_cq(const void *handle); /* a work queue ends its use; NULL: it used none */
/* An object of a kind (and NIC handle, unless NULL) that `client` holds, or NULL. */
void *vipl_server_next_held(uint32_t kind, const void *nic, unsigned client);
/* Calls `call` for each object of a kind, under the objects' lock. */
void vipl_server_for_each(uint32_t kind, void (*call)(struct vipl_server_object *object));

/* The functions below are for a client that holds a VI (recv: which queue) or
 * a completion queue. */

/* Registers a handler. Returns VIP_INVALID_PARAMETER if the client does not hold the object,
 * VIP_ERROR_RESOURCE if the work queue has a completion queue. */
VIP_RETURN vipl_server_object_notify(uint32_t kind, const void *handle, bool recv,
                                     struct vipl_server_notify *notify);
/* The file descriptors of the ready descriptor, which is made if there is none. `fds` stays
 * untouched if the client does not hold the object. */
void vipl_server_object_ready(unsigned client, const void *handle, bool recv, int fds[2]);
/* Puts an entry back into a completion queue. Returns false if the client does not hold it. */
bool vipl_server_cq_hand_on(unsigned client, const void *handle, uint32_t code);

#endif
