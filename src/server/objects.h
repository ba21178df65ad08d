/* SPDX-License-Identifier: MIT */
/*
 * The server's objects, and which clients hold them.
 *
 * An object has a set of clients. Using it takes no reference: its real handle is looked up under the lock and
 * used outside it, and if it ends meanwhile the call on it says VIP_INVALID_PARAMETER as in any program. So the
 * object's own memory is touched under the lock only, except by the thread that ends it.
 */
#ifndef VIPL_SERVER_OBJECTS_H
#define VIPL_SERVER_OBJECTS_H

#include "server/rings.h"
#include "share/arena.h"

/* Kinds of objects beside those of handle.h; their handles are known to the server only. */
enum { VIPL_KIND_REGION = VIPL_KINDS, VIPL_KIND_BLOCK, VIPL_SHARE_KINDS };

/* All guarded by the objects' lock, unless constant. */
struct vipl_server_object {
    void *handle;  /* constant: the clients' */
    void *real;    /* constant: this process's; that of a completion queue, region or block is NULL */
    void *nic;     /* constant: the clients' NIC handle it was made on, or NULL */
    uint32_t kind; /* 0 until it is entered */
    uint32_t
        users; /* atomic, changed under the lock: queues on a completion queue, which has its slot as long */
    bool ending; /* its last client is about to end it, or has done so */
    bool ended;  /* it has no client any more */
    uint32_t clients[VIPL_SHARE_CLIENTS / 32];
    unsigned last;                    /* the client that is about to end it */
    struct vipl_shared_queue *queues; /* constant: a VI's two */
    void *cqs[2];                     /* constant: a VI's, the clients' handles or NULL */
    struct vipl_shared_cq *cq;        /* constant: a completion queue's */
    unsigned char *address;           /* constant: of a region or block */
    size_t bytes;                     /* constant: of a block */
    VIP_MEM_HANDLE memory;            /* constant: of a region */
};

enum vipl_server_dropped { VIPL_SERVER_NOT_HELD, VIPL_SERVER_DROPPED, VIPL_SERVER_WAS_LAST };

void vipl_server_objects_init(struct vipl_arena *arena);
/* Room for an object of a kind, which is not found before it is entered; NULL: there is none. `most`: how many there may be.
 * `nic`: the clients' NIC handle that it is made on, or NULL. */
struct vipl_server_object *vipl_server_object_new(uint32_t kind, uint32_t most, void *nic);
/* It is there from now on, and `client` holds it. */
void vipl_server_object_enter(struct vipl_server_object *object, unsigned client);
void vipl_server_object_free(struct vipl_server_object *object);
/* Whether a client holds an object, and then what the server's own handle of it is. */
bool vipl_server_held(uint32_t kind, const void *handle, unsigned client, void **real);
void *vipl_server_real(uint32_t kind, const void *handle);    /* of any client's; NULL: no such object */
void *vipl_server_handle_of(uint32_t kind, const void *real); /* the clients' handle; NULL: none */
void *vipl_server_handle_of_nic(uint32_t kind,
                                const void *handle); /* that an object was made on; NULL: none */
void *vipl_server_region(const void *nic, const void *address,
                         VIP_MEM_HANDLE memory); /* its handle, or NULL */
void *vipl_server_block(const void *address);    /* its handle, or NULL */
/* Drops a client's reference. WAS_LAST: the object is the caller's, to end or to give back. */
enum vipl_server_dropped vipl_server_drop(uint32_t kind, const void *handle, unsigned client,
                                          struct vipl_server_object **out);
void vipl_server_give_back(struct vipl_server_object *object,
                           unsigned client); /* which cannot be ended now */
void vipl_server_inherit(unsigned parent, unsigned child);
/* Drops a client's references to objects that other clients hold, too: no object ends by that. */
void vipl_server_leave_to_others(unsigned client);
/* One more queue on a completion queue; NULL: there is no such one on the NIC handle. */
struct vipl_shared_cq *vipl_server_use_cq(const void *handle, const void *nic);
void vipl_server_leave_cq(const void *handle); /* one less; NULL: the queue had none */
/* The next object of a kind (and NIC handle, if one is given) that `client` holds, or NULL. */
void *vipl_server_next_held(uint32_t kind, const void *nic, unsigned client);
/* Under the lock. */
void vipl_server_for_each(uint32_t kind, void (*call)(struct vipl_server_object *object));

/* What follows is for a client that holds a VI (recv: of which queue) or completion queue, with an ordinary handle. */

/* Registers a handler. VIP_INVALID_PARAMETER: the client does not hold the object; VIP_ERROR_RESOURCE: the queue has a
 * completion queue. */
VIP_RETURN vipl_server_object_notify(uint32_t kind, const void *handle, bool recv,
                                     struct vipl_server_notify *notify);
/* The descriptors of the ready descriptor, made if need be; untouched where there is none. */
void vipl_server_object_ready(unsigned client, const void *handle, bool recv, int fds[2]);
/* Puts an entry back into a completion queue; false: the client holds no such one. */
bool vipl_server_cq_hand_on(unsigned client, const void *handle, uint32_t code);

#endif
