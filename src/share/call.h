/* SPDX-License-Identifier: MIT */
/*
 * The calls that clients make in the server. Each is written down once, in the list below. The
 * enumeration, the table of properties, the server's functions and the clients' functions are made
 * from it.
 */
#ifndef VIPL_SHARE_CALL_H
#define VIPL_SHARE_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/handle.h"
#include "os/os.h"
#include "vipl/posix.h"

enum vipl_call_properties {
    VIPL_PLAIN = 0,
    /* A signal handler that runs during the call may post and reap. It ends the call,
     * unless calls restart. */
    VIPL_WAITS = 1,
    VIPL_RIGHTS = 2, /* uses the server's rights, so the caller must have the same ones */
    VIPL_ENDS = 4,   /* ends a connection or drops a reference */
    VIPL_POSTS = 8
};
enum { VIPL_KIND_NONE = 0 };

/* call(name, the server's function, kind of its object, properties, arguments) */
/* clang-format off */
#define VIPL_CALL_LIST(call) \
    call(OPEN, open_nic, NONE, VIPL_RIGHTS, open) \
    call(CLOSE, close_nic, NIC, VIPL_ENDS, nothing) \
    call(QUERY_NIC, query_nic, NIC, VIPL_PLAIN, nic) \
    call(CREATE_PTAG, create_ptag, NIC, VIPL_PLAIN, ptag) \
    call(DESTROY_PTAG, destroy_ptag, NIC, VIPL_ENDS, ptag) \
    call(REGISTER, register_mem, NIC, VIPL_RIGHTS, mem) /* the shared heap needs no rights */ \
    call(DEREGISTER, deregister_mem, NIC, VIPL_ENDS, mem) \
    call(QUERY_MEM, query_mem, NIC, VIPL_PLAIN, mem) \
    call(CHANGE_MEM, change_mem, NIC, VIPL_PLAIN, mem) \
    call(CREATE_VI, create_vi, NIC, VIPL_PLAIN, create_vi) \
    call(DESTROY_VI, destroy_vi, VI, VIPL_ENDS, nothing) \
    call(QUERY_VI, query_vi, VI, VIPL_PLAIN, vi) \
    call(CHANGE_VI, change_vi, VI, VIPL_PLAIN, vi) \
    call(SET_USER_DATA, set_user_data, VI, VIPL_PLAIN, user_data) \
    call(GET_USER_DATA, get_user_data, VI, VIPL_PLAIN, user_data) \
    call(CONNECT_WAIT, connect_wait, NIC, VIPL_WAITS | VIPL_RIGHTS, connect) \
    call(ACCEPT, accept_request, CONN, VIPL_PLAIN, accept) \
    call(REJECT, reject_request, CONN, VIPL_PLAIN, nothing) \
    call(CONNECT, connect_vi, VI, VIPL_WAITS | VIPL_RIGHTS, connect) \
    call(DISCONNECT, disconnect_vi, VI, VIPL_ENDS, nothing) \
    call(PEER_REQUEST, peer_request, VI, VIPL_RIGHTS, connect) \
    call(PEER_DONE, peer_done, VI, VIPL_PLAIN, vi) \
    call(PEER_WAIT, peer_wait, VI, VIPL_WAITS, vi) \
    call(POST_SEND, post_send, VI, VIPL_POSTS, post) \
    call(POST_RECV, post_recv, VI, VIPL_POSTS, post) \
    call(CATCH_UP, catch_up, NONE, VIPL_PLAIN, nothing) \
    call(CREATE_CQ, create_cq, NIC, VIPL_PLAIN, cq) \
    call(DESTROY_CQ, destroy_cq, CQ, VIPL_ENDS, nothing) \
    call(RESIZE_CQ, resize_cq, CQ, VIPL_PLAIN, cq) \
    call(HAND_ON, hand_on, CQ, VIPL_PLAIN, hand_on) \
    call(HOST_BY_NAME, host_by_name, NIC, VIPL_RIGHTS, host) \
    call(HOST_BY_ADDRESS, host_by_address, NIC, VIPL_RIGHTS, host) \
    call(ALLOC, alloc_block, NONE, VIPL_PLAIN, block) \
    call(FREE, free_block, NONE, VIPL_ENDS, block) \
    call(NOTIFY_VI, register_handler, VI, VIPL_PLAIN, handler) \
    call(NOTIFY_CQ, register_handler, CQ, VIPL_PLAIN, handler) \
    call(ERROR_HANDLER, error_handler, NIC, VIPL_PLAIN, handler) \
    call(NIC_STATISTICS, nic_statistics, NIC, VIPL_PLAIN, nic_statistics) \
    call(VI_STATISTICS, vi_statistics, NIC, VIPL_PLAIN, vi_statistics)
/* clang-format on */

enum vipl_call_name {
#define VIPL_CALL_NAME(name, function, kind, properties, arguments) VIPL_CALL_##name,
    VIPL_CALL_LIST(VIPL_CALL_NAME)
#undef VIPL_CALL_NAME
        VIPL_CALLS
};

/* --- arguments and results: struct vipl_call_X, X as in the list; handles are the clients' --- */

/* A VIP_NET_ADDRESS with room for the longest address. */
struct vipl_call_address {
    VIP_NET_ADDRESS address;
    uint8_t room[VIPL_MAX_HOST_ADDRESS + VIPL_MAX_DISCRIMINATOR];
};

struct vipl_call_nothing {
    char unused;
};
struct vipl_call_open {
    char device[256]; /* "": the default device */
    void *nic;        /* result */
};
struct vipl_call_nic {
    VIP_NIC_ATTRIBUTES attributes;
    uint8_t address[VIPL_MAX_HOST_ADDRESS]; /* the bytes that LocalNicAddress points at */
};
struct vipl_call_ptag {
    void *ptag;
};
struct vipl_call_mem {
    void *address;
    VIP_ULONG length;
    VIP_MEM_HANDLE memory;
    VIP_MEM_ATTRIBUTES attributes;
    struct vipl_mapping mapping; /* the mapping at `address`, if that is not in the heap */
};
struct vipl_call_create_vi {
    VIP_VI_ATTRIBUTES attributes;
    void *cqs[2]; /* send, receive; NULL: none */
    void *vi;     /* result */
};
struct vipl_call_vi {
    VIP_VI_ATTRIBUTES attributes; /* of the VI, or of its peer */
    VIP_VI_STATE state;
    VIP_BOOLEAN empty[2]; /* send, receive */
};
struct vipl_call_user_data {
    void *data;
};
struct vipl_call_connect {
    VIP_ULONG flags; /* of VipxConnectRequest() */
    VIP_ULONG timeout;
    struct vipl_call_address local;
    struct vipl_call_address remote;
    VIP_VI_ATTRIBUTES attributes; /* result: of the peer VI */
    void *conn;                   /* result of VipConnectWait() */
};
struct vipl_call_accept {
    void *vi;
};
struct vipl_call_post {
    VIP_DESCRIPTOR *descriptor;
    VIP_MEM_HANDLE memory;
};
struct vipl_call_cq {
    VIP_ULONG entries;
    void *cq; /* result */
};
struct vipl_call_hand_on {
    uint32_t code; /* the entry of the completion queue */
};
struct vipl_call_host {
    VIP_ULONG index;
    struct vipl_call_address address;
    char name[256];
};
struct vipl_call_block {
    VIP_ULONG length;
    void *address;
};
struct vipl_call_nic_statistics {
    VIPX_NIC_STATISTICS statistics;
};
struct vipl_call_vi_statistics {
    VIPX_VI_STATISTICS statistics;
};

/* A handler that a client registers, and the call of it that the server sends back with the other
 * fields filled in. */
enum vipl_handler_kind { VIPL_SHARED_VI, VIPL_SHARED_CQ, VIPL_SHARED_ERROR };
struct vipl_call_handler {
    uint32_t kind; /* enum vipl_handler_kind */
    VIP_BOOLEAN recv;
    void *context;
    void *nic;
    void *vi;
    VIP_VI_CALLBACK vi_handler; /* in the client's memory, as `context` is */
    VIP_CQ_CALLBACK cq_handler;
    VIP_ERROR_HANDLER error_handler;
    VIP_DESCRIPTOR *descriptor;
    VIP_ERROR_DESCRIPTOR error;
};

union vipl_call_arguments {
    struct vipl_call_nothing nothing;
    struct vipl_call_open open;
    struct vipl_call_nic nic;
    struct vipl_call_ptag ptag;
    struct vipl_call_mem mem;
    struct vipl_call_create_vi create_vi;
    struct vipl_call_vi vi;
    struct vipl_call_user_data user_data;
    struct vipl_call_connect connect;
    struct vipl_call_accept accept;
    struct vipl_call_post post;
    struct vipl_call_cq cq;
    struct vipl_call_hand_on hand_on;
    struct vipl_call_host host;
    struct vipl_call_block block;
    struct vipl_call_handler handler;
    struct vipl_call_nic_statistics nic_statistics;
    struct vipl_call_vi_statistics vi_statistics;
};

struct vipl_call {
    uint32_t name; /* enum vipl_call_name */
    VIP_RETURN rc;
    void *object;                /* the clients' handle; NULL: the call has no object */
    union vipl_call_arguments a; /* of this call; the bytes after them have no meaning */
};

/* The properties of a call. */
struct vipl_call_traits {
    const char *name;
    uint32_t kind;       /* VIPL_KIND_...: the kind of its object */
    uint32_t properties; /* enum vipl_call_properties */
    size_t bytes;        /* bytes of its arguments */
};
extern const struct vipl_call_traits vipl_calls[VIPL_CALLS];

/* The bytes of a call with its arguments. */
static inline size_t vipl_call_bytes(uint32_t name)
{
    return offsetof(struct vipl_call, a) + vipl_calls[name].bytes;
}

/* Copies a call, and no more bytes than it has, out of memory that its client may be writing to.
 * Returns false if there is no such call. */
bool vipl_call_read(struct vipl_call *to, const struct vipl_call *from);

#endif
