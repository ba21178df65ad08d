/* SPDX-License-Identifier: MIT */
/*
 * Datagram endpoints (FI_EP_RDM): messages with and without tags to any peer of an address vector.
 *
 * Such an endpoint has a link to each peer that it sends to, made at the first message: a connected
 * endpoint of this provider (struct prov_ep), which carries messages one way. What the peer sends
 * comes by a link of the peer's. So no two requests for one connection meet. All happens in the
 * program's calls: VIPL's locks are cheap for the thread that alone uses a VI. Links are asked for,
 * made and ended: reads of a completion queue look for such news now and then. If the program may
 * sleep, a thread does, the watch; a device that has to wake a thread is slower.
 *
 * A message of up to RDM_EAGER bytes goes with its head into a buffer that the receiver has posted,
 * and is copied from there. Over sockets, where an offer costs three ways, a message of up to
 * RDM_COPIED bytes that is not behind others goes so, in parts, one behind the other. Of a longer
 * one the sender offers the memory; the receiver reads it by RDMA when it has matched the offer,
 * and says that it has (RDM_DONE), by the same link.
 *
 * The lock is the NIC handle's; functions whose comment says "locked" want it held.
 */
#ifndef VIPL_PROVIDERS_LIBFABRIC_RDM_H
#define VIPL_PROVIDERS_LIBFABRIC_RDM_H

#include <rdma/fi_tagged.h>

#include "provider.h"

enum {
    RDM_HEAD_BYTES = 32,
    RDM_PIECE_BYTES = 24,
    RDM_NAME_BYTES = 20,
    RDM_EAGER = 16384,
    RDM_COPIED = 65536,
    RDM_PARTS = RDM_COPIED / RDM_EAGER,
    RDM_INJECT = PROV_INJECT - RDM_HEAD_BYTES, /* bytes of a message that go with the head */
    RDM_BUFFER_BYTES = RDM_HEAD_BYTES + RDM_EAGER,
    RDM_ANSWER_BYTES = 64, /* a buffer for RDM_DONE */
    RDM_RECEIVES = 64,     /* posted by each end of a link */
    RDM_SENDS = 128,       /* operations of a link that send or read, */
    RDM_BOUNCES = 64,      /* and buffers of an endpoint for messages that do not go with the head */
    RDM_OFFERS = 1024,     /* messages of an endpoint that the receivers have not read */
    RDM_READS = 4          /* reads of one message under way */
};

/* RDM_MESSAGE has all bytes of the message, or RDM_EAGER; of a longer one the others come by
 * RDM_MORE. */
enum rdm_kind { RDM_MESSAGE = 1, RDM_OFFER, RDM_DONE, RDM_MORE };

/* A piece of memory that is offered. */
struct rdm_piece {
    uint64_t address;
    uint64_t length;
    VIP_MEM_HANDLE handle;
};

/* What stands before a message, or instead of one. */
struct rdm_head {
    enum rdm_kind kind;
    bool tagged, has_data;
    uint32_t id; /* of an offer */
    uint64_t tag;
    uint64_t data;
    uint64_t length; /* of the message; of RDM_MORE: of the part */
    size_t count;    /* of an offer: */
    struct rdm_piece pieces[PROV_IOVS];
};

struct rdm_address {
    uint8_t host[PROV_HOST_BYTES];
    uint16_t port;
    bool used;
};

struct rdm_av {
    struct fid_av fid;
    struct prov_domain *domain;
    struct rdm_address *addresses; /* by fi_addr_t */
    size_t count, room;
    struct list endpoints; /* rdm_ep.of_av */
};

struct rdm_link {
    struct list of_ep;
    struct rdm_ep *owner;
    struct prov_ep *ep; /* its `rdm` is this link */
    bool outgoing;
    bool refused;  /* the peer has sent what is no message: nothing that comes after that counts */
    bool connects; /* of an outgoing one: it is connected, or a request is under way */
    struct rdm_address peer;
    fi_addr_t source; /* FI_ADDR_NOTAVAIL: the peer is not in the address vector */
    uint8_t *buffers; /* of the receives */
    size_t buffer_bytes;
    VIP_MEM_HANDLE buffers_handle;
    struct list offers; /* rdm_offer.link: not read yet */
    struct list reads;  /* rdm_receive.link: have more to read, and no operation for it */
    /* The message of which parts are to come: what has it, one of these; and its bytes to come */
    struct rdm_receive *into;
    struct rdm_unexpected *kept;
    size_t to_come;
};

/* A message of which the sender offers the memory. Its completion follows RDM_DONE. */
struct rdm_offer {
    struct prov_entry entry;
    struct list link; /* of rdm_link.offers, or of rdm_ep.offers_free */
    struct rdm_ep *ep;
    struct rdm_link *to; /* NULL: nothing is offered */
    uint32_t id;         /* its low bits are the index */
    bool wanted;
    size_t count;
    VIPX_REGISTRATION registrations[PROV_IOVS];
};

/* A receive that the program has posted. */
struct rdm_receive {
    struct prov_entry entry;
    struct list link; /* of rdm_ep.posted, .receives_free or rdm_link.reads */
    struct rdm_ep *ep;
    bool wanted, tagged;
    bool discards;    /* the message, without an error */
    uint64_t ignored; /* bits of the tag */
    size_t count;
    struct iovec iov[PROV_IOVS];
    size_t index, at; /* where the next bytes go */
    size_t left;      /* bytes that have neither come, nor a read posted for them */
    /* of a message that is read from the sender's memory: */
    struct rdm_link *from;
    struct rdm_head head;
    size_t piece, piece_at; /* where the next read begins */
    unsigned reading;
    size_t registered;
    VIPX_REGISTRATION registrations[PROV_IOVS];
};

/* A message, or an offer, for which there was no receive. */
struct rdm_unexpected {
    struct list link;
    struct rdm_link *from;
    struct rdm_head head;
    size_t has; /* bytes; others are to come */
    uint8_t bytes[];
};

struct rdm_ep {
    struct fid_ep fid;
    struct prov_domain *domain;
    struct prov_nic *nic;
    struct fi_info *info, *link_info;
    struct rdm_av *av;
    struct list of_av;
    struct prov_queues queues;
    bool enabled;
    struct rdm_address own;
    struct fid_eq *eq;
    struct fid_pep *pep;
    bool listens;           /* pep does, maybe since a fi_enable() that has failed afterwards */
    pthread_mutex_t events; /* whoever reads the event queue has it */
    bool has_watch;
    pthread_t watch;
    pthread_cond_t watch_goes_on; /* with the lock: what the watch has seen is handled, or it is to end */
    bool has_events;              /* atomic; pairs with rdm_progress() */
    bool watch_ends;
    struct list links;
    struct rdm_link **to; /* by fi_addr_t; NULL: none */
    size_t to_count;
    /* of messages without tags, and with tags: */
    struct list posted[2], unexpected[2], claimed;
    struct list receives_free;
    struct list blocks; /* of receives */
    struct rdm_offer *offers;
    struct list offers_free;
    uint8_t *bounces;
    VIP_MEM_HANDLE bounces_handle;
    uint8_t *bounces_free[RDM_BOUNCES];
    size_t bounce_count; /* how many of them are free */
};

static inline struct rdm_ep *rdm_of(struct fid_ep *fid)
{
    return container_of(fid, struct rdm_ep, fid);
}

/* rdm_head.c: heads and addresses as bytes, big-endian. */

/* Returns the bytes written. The address is a sockaddr_in or a sockaddr_in6. */
size_t rdm_name_write(const struct sockaddr_storage *from, uint8_t out[RDM_NAME_BYTES]);
/* Reads an address from so many bytes, which a peer may have made up. Returns its bytes, or 0. */
size_t rdm_name_read(const uint8_t *in, size_t bytes, struct sockaddr_storage *out);

/* Returns the bytes written: RDM_HEAD_BYTES, and behind them the pieces of an offer. */
size_t rdm_head_write(const struct rdm_head *head, uint8_t *out);
/* Reads a head from so many bytes, which a peer may have made up. Returns the bytes of the head, or
 * 0: they are not a message. */
size_t rdm_head_read(const uint8_t *in, size_t bytes, struct rdm_head *head);

/* rdm_av.c */
int rdm_av_open(struct fid_domain *fid, struct fi_av_attr *attributes, struct fid_av **out, void *context);
/* Locked. FI_ADDR_NOTAVAIL: the address is not there. */
fi_addr_t rdm_av_find(const struct rdm_av *av, const struct rdm_address *address);

/* rdm_ep.c */
/* Whether the program may sleep until a completion comes. */
bool rdm_may_sleep(const struct rdm_ep *ep);
int rdm_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **out, void *context);

/* rdm_link.c */
/* Begins to listen, and starts the watch if the program may sleep. */
int rdm_watch_start(struct rdm_ep *ep);
void rdm_watch_stop(struct rdm_ep *ep);
/* Locked, and without the lock in between if there is no link yet. The link to that peer, which may
 * still be connecting; NULL: *rc says why there is none. */
struct rdm_link *rdm_link_to(struct rdm_ep *ep, fi_addr_t to, int *rc);
/* Closes all links. */
void rdm_links_close(struct rdm_ep *ep);
/* Locked. What the peer sends is not of this provider. */
void rdm_link_refuse(struct rdm_link *link, const char *what);
/* Locked. Names the peers of links that were not in the address vector. */
void rdm_links_resolve(struct rdm_ep *ep);
/* Locked. The end of an operation matters: a read, or a send with a completion. */
void rdm_link_await(struct rdm_link *link);
/* Locked. Posts a receive of a link again. */
void rdm_link_post(struct rdm_link *link, struct prov_op *op);

/* rdm_calls.c */
extern struct fi_ops_msg rdm_msg_ops;
extern struct fi_ops_tagged rdm_tagged_ops;

/* rdm_send.c */
/* A message that a program sends. */
struct rdm_message {
    const struct iovec *iov;
    size_t count;
    size_t total; /* bytes; rdm_send() adds them up */
    fi_addr_t to;
    void *context;
    uint64_t flags;
    uint64_t data;
    uint64_t tag;
    bool tagged;
    bool wanted;
};
ssize_t rdm_send(struct rdm_ep *ep, struct rdm_message *message);
int rdm_send_start(struct rdm_ep *ep);
void rdm_send_end(struct rdm_ep *ep);
/* Locked. A send is over. */
void rdm_sent(struct rdm_link *link, struct prov_op *op);
/* Locked. The peer has read what was offered; false: there is no such offer. */
bool rdm_offer_done(struct rdm_link *link, uint32_t id);
/* Locked. The link has ended. */
void rdm_offers_cancel(struct rdm_link *link);

/* rdm_receive.c: receives, as the program posts them, and the operations that match them. */
ssize_t rdm_receive(struct rdm_ep *ep, const struct iovec *iov, size_t count, fi_addr_t source, uint64_t tag,
                    uint64_t ignored, void *context, uint64_t flags, bool tagged);
ssize_t rdm_cancel(fid_t fid, void *context);
void rdm_receive_start(struct rdm_ep *ep);
void rdm_receive_end(struct rdm_ep *ep);
/* Locked. A message has come, with so many of its bytes; a further part of one; or an offer. False:
 * it may not come now. */
bool rdm_arrived(struct rdm_link *link, const struct rdm_head *head, const uint8_t *bytes, size_t count);
/* Locked. The parts that are to come will not. */
void rdm_parts_abandon(struct rdm_link *link);
/* Locked. A read is over. */
void rdm_read_done(struct prov_op *op);
/* Locked. There are operations again for reads that wait for one. */
void rdm_reads_continue(struct rdm_link *link);

#endif
