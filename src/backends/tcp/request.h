/* SPDX-License-Identifier: MIT */
/*
 * How a connection starts: MPA's request and reply. Two VIPL peers describe their VIs in the
 * private data. A foreign peer speaks iWARP without that, and is taken for a VI of fixed
 * properties. The device's lock is held unless a comment says otherwise.
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
    uint32_t segment;         /* payload bytes that the sender receives in a DDP segment */
    struct vipl_address from; /* discriminators only */
    struct vipl_address to;
};
/* Returns the bytes written, at most VIPL_MPA_OUR_PRIVATE - 4. */
size_t vipl_tcp_private_data_write(uint8_t *out, const struct tcp_private_data *data);
bool vipl_tcp_private_data_read(const uint8_t *bytes, size_t length,
                                struct tcp_private_data *out); /* false: not valid */
/* whether it begins with the magic number */
bool vipl_tcp_private_data_is_vipl(const uint8_t *bytes, size_t length);

/* --- start frames --- */

/* Sends an MPA start frame in one piece, with private data (`data` NULL: without). Returns 0 or
 * an errno value. */
int vipl_tcp_start_send(struct tcp_conn *conn, struct vipl_mpa_start start,
                        const struct vipl_mpa_enhanced *enhanced, const struct tcp_private_data *data);
/* Receives into the reassembly buffer until the start frame and its private data are there, and not
 * a byte more. */
enum vipl_parse vipl_tcp_start_receive(struct tcp_conn *conn, struct vipl_mpa_start *start, bool reply);
/* Returns the private data of the received start frame. RFC 6581's part comes first, and is copied
 * to conn->enhanced (zero if there is none). */
const uint8_t *vipl_tcp_start_private(struct tcp_conn *conn, const struct vipl_mpa_start *start,
                                      size_t *bytes);
bool vipl_tcp_wants_crc(const struct tcp_conn *conn);

/* --- replies --- */

/* Sends the reply that accepts the peer's request. Returns false if the connection
 * cannot be used. */
bool vipl_tcp_reply_accept(struct tcp_conn *conn, const struct vipl_vi_params *params,
                           const struct tcp_handler *handler);
/* and ends the connection */
void vipl_tcp_reply_refuse(struct tcp_conn *conn, enum tcp_refusal reason, VIP_RETURN code);

/* --- foreign peers --- */

/* the assumed properties of a foreign peer's VI */
void vipl_tcp_foreign_params(struct vipl_vi_params *out);
/* Whether a requester's first FPDU only says that it is ready to receive. */
bool vipl_tcp_foreign_gets_ready(const struct tcp_conn *conn);
/* the RDMAP operation of that FPDU */
uint8_t vipl_tcp_ready_op(const struct vipl_mpa_enhanced *agreed);
/* Makes the connection one with a foreign peer, which has sent `start`. Returns false if there
 * is no memory. */
bool vipl_tcp_foreign_begin(struct tcp_conn *conn, const struct vipl_mpa_start *start);

#endif
