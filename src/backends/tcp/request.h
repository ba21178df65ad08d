/* SPDX-License-Identifier: MIT */
/*
 * How a connection starts: MPA's request and reply. Two VIPL peers describe their VIs in its private data; a foreign
 * peer, iWARP without that, is taken for a VI of fixed properties. The device's lock is held unless it says otherwise.
 */
#ifndef VIPL_TCP_REQUEST_H
#define VIPL_TCP_REQUEST_H

#include "backends/tcp/conn.h"

/* --- private data of VIPL peers; pure functions --- */

enum tcp_kind { TCP_REQUEST = 1, TCP_PEER_REQUEST = 2, TCP_ACCEPT = 3, TCP_REFUSE = 4 };
enum tcp_refusal { TCP_NO_LISTENER = 1, TCP_REJECTED = 2, TCP_BUSY = 3, TCP_DISAGREES = 4 };
struct tcp_private_data {
    uint8_t kind;   /* enum tcp_kind */
    uint8_t reason; /* enum tcp_refusal, of TCP_REFUSE */
    uint8_t code;   /* VIP_RETURN, of TCP_DISAGREES */
    struct vipl_vi_params params;
    uint32_t segment;         /* payload bytes that the sender takes in a DDP segment */
    struct vipl_address from; /* discriminators only */
    struct vipl_address to;
};
/* Returns its bytes, at most VIPL_MPA_OUR_PRIVATE - 4. */
size_t vipl_tcp_private_data_write(uint8_t *out, const struct tcp_private_data *data);
bool vipl_tcp_private_data_read(const uint8_t *bytes, size_t length,
                                struct tcp_private_data *out);           /* false: makes no sense */
bool vipl_tcp_private_data_is_vipl(const uint8_t *bytes, size_t length); /* it begins with the magic */

/* --- start frames --- */

/* Sends an MPA start frame with that data (NULL: without) in one piece: 0, or what the system says. */
int vipl_tcp_start_send(struct tcp_conn *conn, struct vipl_mpa_start start,
                        const struct vipl_mpa_enhanced *enhanced, const struct tcp_private_data *data);
/* Receives into the reassembly buffer until the start frame and its private data are there, and not a byte more. */
enum vipl_parse vipl_tcp_start_receive(struct tcp_conn *conn, struct vipl_mpa_start *start, bool reply);
/* The private data that has come with it, behind RFC 6581's part, which goes to conn->enhanced (else zeroes). */
const uint8_t *vipl_tcp_start_private(struct tcp_conn *conn, const struct vipl_mpa_start *start,
                                      size_t *bytes);
bool vipl_tcp_wants_crc(const struct tcp_conn *conn);

/* --- replies --- */

/* The VI accepts the peer's request. False: the connection is of no use. */
bool vipl_tcp_reply_accept(struct tcp_conn *conn, const struct vipl_vi_params *params,
                           const struct tcp_handler *handler);
void vipl_tcp_reply_refuse(struct tcp_conn *conn, enum tcp_refusal reason, VIP_RETURN code); /* and ends it */

/* --- foreign peers --- */

void vipl_tcp_foreign_params(struct vipl_vi_params *out); /* what a foreign peer is taken for */
/* Whether a requester's first FPDU is a message by which it is only known to be ready to receive. */
bool vipl_tcp_foreign_gets_ready(const struct tcp_conn *conn);
uint8_t vipl_tcp_ready_op(const struct vipl_mpa_enhanced *agreed); /* and which: an RDMAP operation */
/* The connection is to be one with a foreign peer, which has sent this. False: there is no memory for it. */
bool vipl_tcp_foreign_begin(struct tcp_conn *conn, const struct vipl_mpa_start *start);

#endif
