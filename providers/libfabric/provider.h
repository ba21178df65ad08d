/* SPDX-License-Identifier: MIT */
/*
 * The objects of the libfabric provider "vipl", and what its files call of each other.
 *
 * A libfabric object begins with its fid, which is all that a program sees of it. All objects of a
 * device share one NIC handle (struct prov_nic) and its lock, which guards every field below that
 * has no other guard named. Functions whose comment says "locked" want that lock held. No call of
 * VIPL that may block is made under it: VipDisconnect(), VipConnectRequest(), VipCloseNic(),
 * registering memory.
 *
 * The provider is a client of VIPL's public interface, and of libfabric's installed headers.
 */
#ifndef VIPL_PROVIDERS_LIBFABRIC_PROVIDER_H
#define VIPL_PROVIDERS_LIBFABRIC_PROVIDER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include <vipl/cache.h>
#include <vipl/posix.h>
#include <vipl/vipl.h>

#include "list.h"

/* What the headers of libfabric 1 have, and those of libfabric 2 do not. */
#ifndef container_of
#define container_of(member_address, type, member) ((type *)((char *)(member_address)-offsetof(type, member)))
#endif
#ifndef FI_PRIORITY
#define FI_PRIORITY (1ULL << 22)
#endif

enum {
    PROV_CM_DATA = 40,     /* private data of connect, accept and reject */
    PROV_INJECT = 256,     /* bytes that fi_inject() takes */
    PROV_CQ_DATAGRAMS = 8, /* datagram endpoints of a completion queue */
    PROV_IOVS = 4,         /* pieces of memory of one operation */
    PROV_TX_DEFAULT = 128, /* operations of an endpoint that are not complete or not read, */
    PROV_TX_MOST = 16384,  /* unless the hints ask for another number, */
    PROV_RX_DEFAULT = 256, /* and receives */
    PROV_RX_MOST = 32768,
    PROV_CREDIT_OPS = 4,    /* RDMA Writes that tell the peer of receives, at once, */
    PROV_PART_OPS = 8,      /* and parts of a long RDMA operation */
    PROV_HOST_BYTES = 16,   /* room for the host address of any device */
    PROV_NAME_BYTES = 6,    /* a listener's discriminator: "ofi:" and the port */
    PROV_DISCRIMINATOR = 64 /* the longest that devices have */
};

extern struct fi_provider prov_provider;
#define PROV_LOG(level, subsystem, ...) FI_LOG(&prov_provider, level, subsystem, __VA_ARGS__)

/* A word that is written under the lock, and may be read without it. It says nothing about
 * others. */
static inline void prov_set(bool *word, bool value)
{
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

static inline bool prov_is(const bool *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/* A VIPL address, with room for the longest one. */
union prov_net {
    VIP_NET_ADDRESS net;
    uint8_t bytes[sizeof(VIP_NET_ADDRESS) + PROV_HOST_BYTES + PROV_DISCRIMINATOR];
};

/* How the addresses of a device look to libfabric. */
enum prov_family {
    PROV_LOOPBACK, /* sockaddr_in, an address of this host */
    PROV_INET,     /* sockaddr_in */
    PROV_ETHERNET  /* sockaddr_in6, the link-local address that is made from a MAC address */
};

/* A device of VIPL in this process. Made by prov_nic_find() and never freed: fi_getinfo() asks for
 * the attributes again and again. The NIC handle is open while there are fabrics. */
struct prov_nic {
    struct prov_nic *next;         /* prov_nic_list: lock of device.c */
    char name[64];                 /* constant */
    pid_t pid;                     /* constant: a forked child has records of its own */
    enum prov_family family;       /* constant */
    VIP_NIC_ATTRIBUTES attributes; /* constant; without LocalNicAddress, which is: */
    uint8_t host[PROV_HOST_BYTES]; /* constant */
    unsigned users;                /* fabrics; lock of device.c */
    VIP_NIC_HANDLE handle;         /* constant while there are users */
    pthread_mutex_t lock;
    struct list endpoints; /* prov_ep.of_nic: enabled ones, for the error handler */
    struct list listeners; /* prov_listener.of_nic */
    struct list requests;  /* prov_request.of_nic */
    struct list pending; /* prov_ep.pending: sends without credit, or receives that the peer is not told of */
    bool has_pending;    /* atomic: there are such endpoints; pairs with is_quiet() of cq.c */
    int connect_fd;      /* VIPX_FD_CONNECT; -1 before a program sleeps that listens */
    unsigned long long stalls; /* operations that had no credit at first */
};

/* A name that a NIC handle listens on, until it is closed: VIPL has no call that ends it. */
struct prov_listener {
    struct list of_nic;
    uint16_t port;
    struct prov_pep *pep; /* NULL: requests are rejected */
    union prov_net address;
};

struct prov_fabric {
    struct fid_fabric fid;
    struct prov_nic *nic;
    unsigned users; /* domains, event queues, passive endpoints */
};

struct prov_domain {
    struct fid_domain fid;
    struct prov_fabric *fabric;
    struct prov_nic *nic;
    VIP_PROTECTION_HANDLE ptag;
    unsigned users;   /* endpoints, completion queues */
    unsigned regions; /* atomic; pairs with domain_close() */
};

/* A region. Its descriptor (fi_mr_desc()) is this structure. */
struct prov_mr {
    struct fid_mr fid;
    struct prov_domain *domain;
    VIPX_REGISTRATION registration;
};

/* What an event queue has to say. Part of the object that it is about, so that none is lost for
 * lack of memory; fi_eq_write() allocates its own. */
struct prov_event {
    struct list of_eq; /* alone when it is not queued */
    uint32_t type;
    int error;             /* a code of libfabric: for fi_eq_readerr() */
    bool written;          /* by fi_eq_write(), and freed when it has been read */
    struct prov_ep *ended; /* of FI_SHUTDOWN: the endpoint; else NULL */
    uint64_t since_ms;     /* of FI_SHUTDOWN: when it was added */
    fid_t fid;
    struct fi_info *info; /* of FI_CONNREQ; goes to the program */
    size_t bytes;
    uint8_t *data;
};

struct prov_eq {
    struct fid_eq fid;
    struct prov_fabric *fabric;
    struct list events;
    unsigned users; /* endpoints and passive endpoints */
    int wake_fd;    /* readable while there are events; -1 without a wait object */
    int wait_fd;    /* wake_fd and the NIC handle's connect_fd */
    bool woken;
    bool listens;                     /* a passive endpoint does */
    bool sleeps;                      /* the program has slept, or has the wait object */
    bool has_connect_fd;              /* in wait_fd: both of these are true */
    uint8_t error_data[PROV_CM_DATA]; /* of the last fi_eq_readerr() */
};

struct prov_pep {
    struct fid_pep fid;
    struct prov_fabric *fabric;
    struct prov_eq *eq;
    struct fi_info *info;
    int port_socket; /* reserves the port among the programs of this host; -1: not yet */
    uint16_t port;
    struct prov_listener *listener;
};

/* A connection request that has come in: fi_info.handle of FI_CONNREQ. */
struct prov_request {
    struct fid fid;
    struct list of_nic;
    struct prov_nic *nic;
    VIP_CONN_HANDLE conn;
    VIP_VI_ATTRIBUTES theirs;
    struct prov_event event;
    uint32_t posted;        /* receives of the requester, */
    uint32_t credit_handle; /* and where it wants to be told of ours */
    uint64_t credit_address;
    uint8_t data[PROV_CM_DATA];
};

enum prov_kind {
    PROV_OP_SEND,
    PROV_OP_RECV,
    PROV_OP_READ,
    PROV_OP_WRITE,
    PROV_OP_PART, /* of a READ or WRITE that is longer than one transfer */
    PROV_OP_CREDIT,
    PROV_OP_BOUNCE, /* a send of a datagram endpoint, from a buffer of that (rdm.h), */
    PROV_OP_FIRST,  /* one that is not the last part of its message, */
    PROV_OP_NOTE,   /* and a message of its own */
    PROV_OP_HELLO   /* the first message of the accepting side */
};

/* A completion that the program reads: part of the object that it is about. */
struct prov_entry {
    struct list link;                          /* prov_cq.done */
    void (*release)(struct prov_entry *entry); /* locked: the program has read it */
    void *context;
    void *buffer;
    uint64_t flags;
    uint64_t data;
    uint64_t tag;
    size_t length;
    size_t excess; /* bytes of the message that had no room */
    fi_addr_t source;
    uint32_t status; /* of the descriptor */
    int error;       /* a code of libfabric */
};

/* An operation: a descriptor of VIPL, and its completion. It is on a free list, or posted, or on
 * the list of a completion queue: `entry.link`. */
struct prov_op {
    VIP_DESCRIPTOR descriptor; /* its segments go on in: */
    VIP_DESCRIPTOR_SEGMENT more[PROV_IOVS - 1];
    struct prov_entry entry;
    struct prov_ep *ep;
    uint8_t *inject; /* PROV_INJECT bytes; NULL of receives */
    void *of;        /* what a datagram endpoint uses the operation for (rdm.h) */
    enum prov_kind kind;
    bool wanted;        /* a completion is, also when there is no error */
    bool takes_receive; /* of the peer's */
} __attribute__((aligned(VIP_DESCRIPTOR_ALIGNMENT)));

struct rdm_ep;

struct prov_cq {
    struct fid_cq fid;
    struct prov_domain *domain;
    VIP_CQ_HANDLE handle;
    enum fi_cq_format format;
    enum fi_wait_obj wait;
    struct list done; /* prov_entry.link: completions to be read */
    size_t ready;     /* how many, */
    bool has_ready;   /* atomic: and whether there are any; pairs with is_quiet() of cq.c */
    size_t depth;     /* operations of the endpoints that report here, */
    size_t entries;   /* for which the device has room */
    unsigned users;   /* endpoints, once for each direction */
    /* Endpoints whose sends the device does not tell of (rdm_link.c), while the end of one matters;
     * and whether there are any: atomic, pairs with is_quiet() of cq.c. */
    struct list awaiting;
    bool has_awaiting;
    /* Whose VI had the last entry of sends, and of receives: most often it has the next one. NULL:
     * none. */
    struct prov_ep *last[2];
    int wake_fd; /* readable while there are completions that the device does not show; -1 without a wait object */
    int tick_fd; /* a timer, while a thread may sleep and endpoints have something pending */
    int wait_fd; /* both and the completion queue's descriptor; -1 before FI_GETWAIT */
    bool woken;
    bool ticking;                                /* atomic: the timer runs; pairs with is_quiet() of cq.c */
    bool signalled;                              /* fi_cq_signal() */
    struct rdm_ep *datagrams[PROV_CQ_DATAGRAMS]; /* endpoints that report here */
    bool has_events; /* atomic: their links have news, for rdm_progress(); pairs with is_quiet() of cq.c */
    bool looks;      /* nobody tells of news: reads look for them now and then */
    bool has_others; /* endpoints have another queue for receives, where completions of sends begin */
    unsigned reads;  /* atomic, and approximate */
};

/* The completion queues of an endpoint, and whether only operations with FI_COMPLETION report. */
struct prov_queues {
    struct prov_cq *tx, *rx;
    bool tx_selective, rx_selective;
};

enum prov_state { PROV_IDLE, PROV_ENABLED, PROV_CONNECTING, PROV_CONNECTED, PROV_GONE };

/* How many receives the peer has posted so far: it writes here by RDMA Write, big-endian, and the
 * complement behind it, because a write may be seen half done. */
struct prov_credit {
    uint32_t posted;
    uint32_t complement;
};

/* An RDMA operation longer than one transfer: the parts that are not posted yet. */
struct prov_transfer {
    struct prov_op *last; /* the operation that completes; NULL: there is none under way */
    struct iovec iov[PROV_IOVS];
    VIP_MEM_HANDLE handles[PROV_IOVS];
    size_t index, at;
    uint64_t address;
    VIP_MEM_HANDLE key;
    uint16_t control;
    uint32_t data;
    size_t left;     /* bytes that are not posted; 0 also if there is none under way */
    bool flush;      /* a read that flushes the writes is not posted (FI_DELIVERY_COMPLETE) */
    unsigned posted; /* parts */
    int error;       /* of one of them */
    uint32_t status;
};

struct rdm_link;

struct prov_ep {
    struct fid_ep fid;
    struct rdm_link *rdm; /* whose link it is: completions are for that. NULL: for the program */
    struct prov_domain *domain;
    struct prov_nic *nic;
    struct prov_eq *eq;
    struct prov_queues queues;
    struct fi_info *info;
    struct prov_request *request; /* of the accepting side, until it has accepted */
    enum prov_state state;
    VIP_VI_HANDLE vi;
    struct list of_nic;
    struct list pending;  /* prov_nic.pending */
    bool reports_sends;   /* the completion queue has entries for them */
    unsigned awaited;     /* operations of which the end matters, where it does not */
    struct list awaiting; /* prov_cq.awaiting, then */
    struct prov_event connected, shutdown;
    uint8_t peer_data[PROV_CM_DATA]; /* of the hello or the request: for the event */

    void *pool; /* operations, and the bytes to inject */
    VIP_MEM_HANDLE pool_handle;
    struct list tx_free, rx_free, credit_free, part_free;
    struct list waiting; /* operations that wait for credit, and those behind them */
    struct prov_op *hello;
    struct prov_transfer transfer;

    struct prov_credit *credit;
    VIP_MEM_HANDLE credit_handle;
    uint32_t peer_posted;        /* the largest seen */
    uint32_t sent;               /* messages that took a receive of the peer's */
    uint32_t posted, advertised; /* receives; what the peer has been told */
    uint32_t received;           /* that are over */
    uint32_t peer_credit_handle;
    uint64_t peer_credit_address;

    /* The thread that makes the blocking call of a connect. */
    bool has_connector, connector_ends, cancelled;
    pthread_t connector;
    pthread_cond_t connector_ended;
    union prov_net from, to;
    uint8_t peer_host[PROV_HOST_BYTES];
    uint16_t peer_port;
    bool has_peer;
};

/* abi.c: what depends on the version of libfabric that has loaded the provider. */

/* A copy of an fi_info, or an empty one for NULL; NULL if there is no memory. */
struct fi_info *prov_info_dup(const struct fi_info *info);
void prov_info_free(struct fi_info *info);
/* Milliseconds of the setting FI_VIPL_CONNECT_TIMEOUT. */
VIP_ULONG prov_connect_timeout_ms(void);
/* Whether regions stay in the registration cache: the setting FI_VIPL_CACHE. */
bool prov_caches(void);
/* Whether endpoints are datagram endpoints, and not connected ones: the setting FI_VIPL_RDM. */
bool prov_offers_datagrams(void);
/* The names of devices, separated by commas: FI_VIPL_DEVICE, VIPL_DEVICE or "loopback". */
const char *prov_devices(void);
/* For objects that have no such operation. */
int prov_no_bind(struct fid *fid, struct fid *other, uint64_t flags);
int prov_no_control(struct fid *fid, int command, void *argument);
int prov_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);

/* device.c */

/* The device of that name, whose attributes are known; NULL if it does not open, which is
 * logged. */
struct prov_nic *prov_nic_find(const char *name);
/* Opens the NIC handle for a further fabric, and gives it back. */
int prov_nic_open(struct prov_nic *nic);
void prov_nic_close(struct prov_nic *nic);
void prov_nic_lock(struct prov_nic *nic);
void prov_nic_unlock(struct prov_nic *nic);
/* Starts a thread, which takes no signals of the program's. Returns 0 or a code of libfabric. */
int prov_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);
/* The code of libfabric, negative, for a return code of VIPL. */
int prov_error(VIP_RETURN rc);

/* address.c: addresses of libfabric and of VIPL. */

uint32_t prov_address_format(const struct prov_nic *nic);
/* Writes at most *bytes of the address, and sets *bytes to its length; -FI_ETOOSMALL if it is
 * longer. */
int prov_address_copy(const struct prov_nic *nic, const uint8_t *host, uint16_t port, void *out,
                      size_t *bytes);
/* Reads an address that a program names; a code of libfabric if the device does not have such, or
 * cannot reach it. */
int prov_address_read(const struct prov_nic *nic, const void *address, size_t bytes, uint8_t *host,
                      uint16_t *port);
/* The address of a listener, and of a requester, whose discriminator are these bytes. */
void prov_address_listener(const struct prov_nic *nic, const uint8_t *host, uint16_t port,
                           union prov_net *out);
void prov_address_set(const struct prov_nic *nic, const uint8_t *host, const void *discriminator,
                      size_t bytes, union prov_net *out);

/* info.c */
int prov_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                 const struct fi_info *hints, struct fi_info **info);

/* What a link of a datagram endpoint is opened with; its listener has the address, unless that is
 * NULL. NULL: there is no memory, or no such address. */
struct fi_info *prov_link_info(struct prov_nic *nic, const void *address, size_t bytes);

/* fabric.c */
int prov_fabric_open(struct fi_fabric_attr *attributes, struct fid_fabric **out, void *context);

/* domain.c */
int prov_domain_open(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **out, void *context);

/* mr.c */
extern struct fi_ops_mr prov_mr_ops;
/* Registers memory, or finds it in the cache unless `once`, for those of FI_REMOTE_READ and
 * FI_REMOTE_WRITE that `access` has. */
VIP_RETURN prov_acquire(const struct prov_domain *domain, const struct iovec *memory, uint64_t access,
                        bool once, VIPX_REGISTRATION *out);
/* The handle of the memory of a descriptor of libfabric's. */
VIP_MEM_HANDLE prov_mr_handle(const void *descriptor);

/* eq.c */
/* Options of endpoints, passive ones too: how much private data a connection carries. */
int prov_cm_getopt(fid_t fid, int level, int name, void *value, size_t *bytes);
int prov_cm_setopt(fid_t fid, int level, int name, const void *value, size_t bytes);

int prov_eq_open(struct fid_fabric *fid, struct fi_eq_attr *attributes, struct fid_eq **out, void *context);
void prov_event_init(struct prov_event *event, fid_t fid, uint8_t *data);
/* Locked. Queues an event, which must not be queued. */
void prov_eq_add(struct prov_eq *eq, struct prov_event *event, uint32_t type, int error, size_t bytes);
/* Locked. Queues FI_SHUTDOWN of an endpoint. The program gets the event when it has read the
 * completions of what came before, or after a second. */
void prov_eq_add_shutdown(struct prov_eq *eq, struct prov_event *event, struct prov_ep *ep);
/* Locked. Takes an event back that has not been read. */
void prov_eq_remove(struct prov_eq *eq, struct prov_event *event);
/* Locked. A passive endpoint of the queue listens. */
int prov_eq_listens(struct prov_eq *eq);
/* Locked. Whether there is an event. */
bool prov_eq_ready(struct prov_eq *eq);

/* passive.c */
int prov_pep_open(struct fid_fabric *fid, struct fi_info *info, struct fid_pep **out, void *context);
/* Locked. Takes the connection requests that have come in for any listener of the NIC handle. */
void prov_take_requests(struct prov_nic *nic);
/* Locked. The request of fi_info.handle; NULL if there is none, or not any more. */
struct prov_request *prov_request_find(struct prov_nic *nic, const struct fid *handle);
/* Locked. The request has been answered. */
void prov_request_free(struct prov_request *request);
/* Frees the listeners and the requests of a NIC handle that is closed. */
void prov_listeners_free(struct prov_nic *nic);

/* hello.c: what the two sides of a connection tell each other. */

struct prov_hello {
    bool accepted;
    uint32_t posted, credit_handle;
    uint64_t credit_address;
    size_t bytes; /* private data */
    uint8_t data[PROV_CM_DATA];
};
enum { PROV_HELLO_BYTES = 20 + PROV_CM_DATA };
/* Returns the bytes written. */
size_t prov_hello_write(const struct prov_hello *hello, uint8_t out[PROV_HELLO_BYTES]);
bool prov_hello_read(const uint8_t *in, size_t bytes, struct prov_hello *hello);

/* connect.c */
extern struct fi_ops_cm prov_ep_cm_ops;
/* Locked. The hello has come, or the receive for it has ended with an error. */
void prov_ep_hello_done(struct prov_ep *ep, struct prov_op *op);
/* Locked. The connection has ended by itself: the program gets FI_SHUTDOWN, once. */
void prov_ep_gone(struct prov_ep *ep);
/* Not locked. Ends a connect that is under way, and waits for its thread. */
void prov_ep_cancel_connect(struct prov_ep *ep);

/* rdm_link.c: of links of datagram endpoints. */

/* Not locked. Handles the news of links. */
void rdm_progress(struct prov_cq *cq);
struct prov_cq *rdm_receive_queue(const struct rdm_ep *ep);
/* Locked. */
void rdm_link_received(struct rdm_link *link, struct prov_op *op);
void rdm_link_done(struct rdm_link *link, struct prov_op *op);
void rdm_link_forget(struct rdm_link *link); /* its connected endpoint ends */

/* passive.c, connect.c: of endpoints of another kind. */
int prov_no_accept(struct fid_ep *ep, const void *data, size_t bytes);
int prov_no_listen(struct fid_pep *pep);
int prov_no_reject(struct fid_pep *pep, fid_t handle, const void *data, size_t bytes);

/* ep.c */
int prov_no_tx_context(struct fid_ep *ep, int index, struct fi_tx_attr *attributes, struct fid_ep **out,
                       void *context);
int prov_no_rx_context(struct fid_ep *ep, int index, struct fi_rx_attr *attributes, struct fid_ep **out,
                       void *context);
ssize_t prov_no_size_left(struct fid_ep *ep);
int prov_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **out, void *context);
/* Locked. */
struct prov_op *prov_op_take(struct list *free);
void prov_op_give(struct prov_op *op);
void prov_op_release(struct prov_entry *entry); /* the same, by its completion */
/* The first segment of an operation's memory; its descriptor is reset. */
VIP_DESCRIPTOR_SEGMENT *prov_op_begin(struct prov_op *op, enum prov_kind kind, uint16_t control);
/* One segment of the pool's own memory. */
void prov_op_own_bytes(struct prov_op *op, VIP_DESCRIPTOR_SEGMENT *segment, size_t bytes);

/* complete.c */
/* Locked. An operation that sends or reads is over: for the program, or for a datagram endpoint. */
void prov_op_finish(struct prov_op *op);
/* Locked. Takes a descriptor of a VI, if one is complete, and does what follows. Returns whether
 * there was one. */
bool prov_ep_reap(struct prov_ep *ep, bool recv);
/* Locked. All that are complete of the send queue, for operations to be free again. */
void prov_ep_reap_sends(struct prov_ep *ep);

/* credit.c */
/* Locked. Tells the peer of receives, if it may soon need to know. */
void prov_credit_advertise(struct prov_ep *ep);
/* Locked. No other call goes on with anything of the endpoint. */
void prov_clear_pending(struct prov_ep *ep);
/* Locked. Posts an operation that sends, or has it wait for credit, for those before it, and until
 * the endpoint is connected. On failure the operation is free again. */
int prov_submit(struct prov_ep *ep, struct prov_op *op);
/* Locked. One receive of the peer's, for a message that is posted next; false if there is none. */
bool prov_take_credit(struct prov_ep *ep);
/* Locked. Whether operations wait. */
bool prov_is_waiting(const struct prov_ep *ep);
/* Locked. Posts what need not wait any more, of one endpoint or of all of the NIC handle. */
void prov_push_ep(struct prov_ep *ep);
void prov_push(struct prov_nic *nic);
/* Locked. The connection has ended: operations that wait are cancelled. */
void prov_cancel_waiting(struct prov_ep *ep);

/* cq.c */
int prov_cq_open(struct fid_domain *fid, struct fi_cq_attr *attributes, struct fid_cq **out, void *context);
/* Locked. Binds a queue to an endpoint of the domain, with the flags of fi_ep_bind(). */
int prov_cq_bind(struct prov_cq *cq, const struct prov_domain *domain, struct prov_queues *queues,
                 uint64_t flags);
/* Locked. Queues a completion. */
void prov_cq_add(struct prov_cq *cq, struct prov_entry *entry);
/* Locked. Takes a completion back that the program has not read. */
void prov_cq_remove(struct prov_cq *cq, struct prov_entry *entry);
/* Locked. One operation more, or less, of an endpoint is to be looked for (prov_cq.awaiting). */
void prov_cq_await(struct prov_cq *cq, struct prov_ep *ep);
void prov_cq_awaits_less(struct prov_cq *cq, struct prov_ep *ep);
/* Locked. Drops the completions of an endpoint, which ends. */
void prov_cq_forget(struct prov_cq *cq, const struct prov_ep *ep);
/* Locked. Returns true if the queue has completions without error of the endpoint. */
bool prov_cq_has(struct prov_cq *cq, const struct prov_ep *ep);
/* Locked. Has the wait object show what there is. Called by those that add completions outside a
 * read of the same queue. */
void prov_cq_update_wake(struct prov_cq *cq);
/* Locked. Does what follows from an entry that the device's completion queue has returned. */
void prov_cq_took(struct prov_cq *cq, VIP_VI_HANDLE vi, VIP_BOOLEAN recv);
/* Locked. Whether there is a completion. */
bool prov_cq_ready(struct prov_cq *cq);
/* Locked. Room for the operations of a further endpoint, or of one less. */
int prov_cq_grow(struct prov_cq *cq, size_t operations);
void prov_cq_shrink(struct prov_cq *cq, size_t operations);

/* msg.c, rma.c */
extern struct fi_ops_msg prov_msg_ops;
extern struct fi_ops_rma prov_rma_ops;
/* Copies pieces of memory one behind the other; returns their bytes. */
size_t prov_gather(uint8_t *to, const struct iovec *iov, size_t count);
/* The memory of an operation; writes the segments from the first one on. -FI_EINVAL for memory that
 * is not registered. */
int prov_fill(struct prov_op *op, VIP_DESCRIPTOR_SEGMENT *first, const struct iovec *iov, void *const *desc,
              size_t count);
/* Whether the flags of an operation are possible; logs if not. */
int prov_check_flags(uint64_t flags, uint64_t possible);
/* Locked. Why an endpoint cannot send: 0 if it can, now or soon. */
int prov_ep_can_send(const struct prov_ep *ep);
/* Locked. Posts further parts of a long RDMA operation. */
void prov_transfer_continue(struct prov_ep *ep);

/* Locked. Whether parts of a long operation are not posted yet, so that others wait behind it. */
static inline bool prov_transfer_goes_on(const struct prov_ep *ep)
{
    return ep->transfer.left > 0 || ep->transfer.flush;
}

static inline struct prov_ep *prov_ep_of(struct fid_ep *fid)
{
    return container_of(fid, struct prov_ep, fid);
}

#endif
