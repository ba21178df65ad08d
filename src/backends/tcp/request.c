/* SPDX-License-Identifier: MIT */
/*
 * How a connection starts: MPA's request and reply. The private data of VIPL peers, in network
 * order:
 *
 *      0  "VIPL"                8  reliability level       20  payload bytes taken in a segment
 *      4  version, 2           10  0                       24  bytes of the sender's discriminator
 *      5  kind                 12  MaxTransferSize         25  bytes of the other's
 *      6  reason << 5 | flags                              26  both
 *      7  a refusal's code
 *
 * Flags: 1 RDMA Writes are allowed, 2 RDMA Reads are, 4 there is a quality of service, 8 the
 * program's addresses have 32 bits. Foreign peers (RFC 5044, RFC 6581) have no such data.
 */
#include "backends/tcp/request.h"

#include <errno.h>
#include <string.h>

#include "backends/tcp/address.h"
#include "backends/tcp/foreign.h"
#include "base/log.h"
#include "iwarp/bytes.h"

enum {
    FIXED_BYTES = 26,
    VERSION = 2,
    FLAG_WRITE = 1,
    FLAG_READ = 2,
    FLAG_QOS = 4,
    FLAG_32_BIT = 8,
    FOREIGN_READS = 16,       /* greatest IRD and ORD with a foreign peer */
    DEFAULT_READS = 1,        /* ORD towards a foreign peer that does not state its IRD */
    DEPTH_NOT_STATED = 0x3FFF /* RFC 6581: the depth is not stated */
};

/* --- private data --- */

static const uint8_t magic[4] = {'V', 'I', 'P', 'L'};

size_t vipl_tcp_private_data_write(uint8_t *out, const struct tcp_private_data *data)
{
    memset(out, 0, FIXED_BYTES);
    memcpy(out, magic, sizeof(magic));
    out[4] = VERSION;
    out[5] = data->kind;
    out[6] = (uint8_t)(data->reason << 5 | (data->params.rdma_write ? FLAG_WRITE : 0) |
                       (data->params.rdma_read ? FLAG_READ : 0) | (data->params.has_qos ? FLAG_QOS : 0) |
                       (data->params.is_32_bit ? FLAG_32_BIT : 0));
    out[7] = data->code;
    vipl_put16(out + 8, data->params.reliability);
    vipl_put64(out + 12, data->params.max_transfer_size);
    vipl_put32(out + 20, data->segment);
    out[24] = (uint8_t)data->from.disc_len;
    out[25] = (uint8_t)data->to.disc_len;
    memcpy(out + FIXED_BYTES, data->from.disc, data->from.disc_len);
    memcpy(out + FIXED_BYTES + data->from.disc_len, data->to.disc, data->to.disc_len);
    return FIXED_BYTES + (size_t)data->from.disc_len + data->to.disc_len;
}

bool vipl_tcp_private_data_is_vipl(const uint8_t *bytes, size_t length)
{
    return length >= sizeof(magic) && memcmp(bytes, magic, sizeof(magic)) == 0;
}

bool vipl_tcp_private_data_read(const uint8_t *bytes, size_t length, struct tcp_private_data *out)
{
    memset(out, 0, sizeof(*out));
    if (length < FIXED_BYTES || !vipl_tcp_private_data_is_vipl(bytes, length)) {
        return false;
    }
    if (bytes[4] != VERSION) {
        vipl_log(VIPL_LOG_INFO, "a peer has version %u of the connect request, this library %u: refused",
                 (unsigned)bytes[4], (unsigned)VERSION);
        return false;
    }
    if (bytes[24] > VIPL_MAX_DISCRIMINATOR || bytes[25] > VIPL_MAX_DISCRIMINATOR ||
        length != FIXED_BYTES + (size_t)bytes[24] + bytes[25]) {
        return false;
    }
    out->kind = bytes[5];
    out->reason = bytes[6] >> 5;
    out->code = bytes[7];
    out->params.rdma_write = (bytes[6] & FLAG_WRITE) != 0;
    out->params.rdma_read = (bytes[6] & FLAG_READ) != 0;
    out->params.has_qos = (bytes[6] & FLAG_QOS) != 0;
    out->params.is_32_bit = (bytes[6] & FLAG_32_BIT) != 0;
    out->params.reliability = vipl_get16(bytes + 8);
    out->params.max_transfer_size = vipl_get64(bytes + 12);
    out->segment = vipl_get32(bytes + 20);
    out->from.disc_len = bytes[24];
    out->to.disc_len = bytes[25];
    memcpy(out->from.disc, bytes + FIXED_BYTES, out->from.disc_len);
    memcpy(out->to.disc, bytes + FIXED_BYTES + out->from.disc_len, out->to.disc_len);
    return true;
}

/* --- start frames --- */

int vipl_tcp_start_send(struct tcp_conn *conn, struct vipl_mpa_start start,
                        const struct vipl_mpa_enhanced *enhanced, const struct tcp_private_data *data)
{
    uint8_t frame[VIPL_MPA_START_BYTES + VIPL_MPA_OUR_PRIVATE];
    uint8_t *end = frame + VIPL_MPA_START_BYTES;
    start.enhanced = enhanced != NULL;
    if (enhanced != NULL) {
        vipl_mpa_enhanced_write(end, enhanced);
        end += VIPL_MPA_ENHANCED_BYTES;
    }
    if (data != NULL) {
        end += vipl_tcp_private_data_write(end, data);
    }
    start.private_bytes = (uint16_t)(end - frame - VIPL_MPA_START_BYTES);
    vipl_mpa_start_write(frame, &start);
    struct vipl_iov all = {frame, (size_t)(end - frame)};
    size_t sent = 0;
    int error = vipl_socket_send(conn->fd, &all, 1, false, &sent);
    /* the socket's buffer is empty, so the frame should fit */
    return error == 0 && sent < all.len ? ENOBUFS : error;
}

static bool make_buffer(struct tcp_conn *conn)
{
    if (conn->rx.buffer == NULL) {
        conn->rx.size = VIPL_MPA_START_BYTES + VIPL_MPA_MAX_PRIVATE;
        conn->rx.buffer = vipl_alloc(conn->rx.size);
    }
    return conn->rx.buffer != NULL;
}

/* Receives until the reassembly buffer has `need` bytes. */
static enum vipl_parse receive_start_bytes(struct tcp_conn *conn, size_t need)
{
    struct tcp_receiving *rx = &conn->rx;
    while (rx->have < need) {
        struct vipl_iov rest = {rx->buffer + rx->have, need - rx->have};
        size_t n = 0;
        int error = vipl_socket_receive(conn->fd, &rest, 1, &n);
        if (error != 0 || n == 0) {
            return error == EAGAIN ? VIPL_PARSE_MORE : VIPL_PARSE_BAD;
        }
        rx->have += n;
    }
    return VIPL_PARSE_OK;
}

enum vipl_parse vipl_tcp_start_receive(struct tcp_conn *conn, struct vipl_mpa_start *start, bool reply)
{
    struct tcp_receiving *rx = &conn->rx;
    if (!make_buffer(conn)) {
        return VIPL_PARSE_BAD;
    }
    if (rx->have < VIPL_MPA_START_BYTES) {
        enum vipl_parse filled = receive_start_bytes(conn, VIPL_MPA_START_BYTES);
        if (filled == VIPL_PARSE_BAD) {
            return filled;
        }
    }
    enum vipl_parse parsed = vipl_mpa_start_read(rx->buffer, rx->have, start);
    if (parsed != VIPL_PARSE_OK) {
        return parsed;
    }
    if (start->reply != reply) {
        return VIPL_PARSE_BAD;
    }
    return receive_start_bytes(conn, VIPL_MPA_START_BYTES + (size_t)start->private_bytes);
}

const uint8_t *vipl_tcp_start_private(struct tcp_conn *conn, const struct vipl_mpa_start *start,
                                      size_t *bytes)
{
    const uint8_t *from = conn->rx.buffer + VIPL_MPA_START_BYTES;
    *bytes = start->private_bytes;
    conn->rx.have = 0; /* the next bytes are FPDUs */
    conn->enhanced = (struct vipl_mpa_enhanced){0};
    if (start->enhanced && start->private_bytes >= VIPL_MPA_ENHANCED_BYTES) {
        vipl_mpa_enhanced_read(from, &conn->enhanced);
        *bytes -= VIPL_MPA_ENHANCED_BYTES;
        return from + VIPL_MPA_ENHANCED_BYTES;
    }
    return from;
}

/* Connections within this host have no CRC unless the setting asks for it. Each socket is bound to
 * the device's address, so equal addresses mean one host. */
bool vipl_tcp_wants_crc(const struct tcp_conn *conn)
{
    const struct tcp_nic *nic = conn->nic;
    return nic->settings.crc == TCP_CRC_ON ||
           (nic->settings.crc == TCP_CRC_AUTO && !vipl_tcp_same_host(&nic->inet, &conn->peer));
}

/* --- foreign peers --- */

void vipl_tcp_foreign_params(struct vipl_vi_params *out)
{
    *out = (struct vipl_vi_params){.max_transfer_size = TCP_TRANSFER_SIZE,
                                   .reliability = VIP_SERVICE_RELIABLE_DELIVERY,
                                   .rdma_write = true,
                                   .rdma_read = true,
                                   .foreign = true};
}

static uint16_t clamp_depth(uint16_t stated)
{
    return stated < FOREIGN_READS ? stated : FOREIGN_READS;
}

uint8_t vipl_tcp_ready_op(const struct vipl_mpa_enhanced *agreed)
{
    /* the peer asks for such an FPDU and names no operation */
    return agreed->rtr_write  ? VIPL_RDMAP_WRITE
           : agreed->rtr_read ? VIPL_RDMAP_READ_REQUEST
           : agreed->rtr_send ? VIPL_RDMAP_SEND
                              : VIPL_RDMAP_WRITE;
}

/* This side's part of an enhanced set-up, in reply to the peer's. */
static struct vipl_mpa_enhanced foreign_reply(const struct vipl_mpa_enhanced *theirs)
{
    uint8_t op = vipl_tcp_ready_op(theirs);
    bool ready = theirs->peer_to_peer;
    return (struct vipl_mpa_enhanced){.ird = clamp_depth(theirs->ord),
                                      .ord = clamp_depth(theirs->ird),
                                      .peer_to_peer = ready,
                                      .rtr_send = ready && op == VIPL_RDMAP_SEND,
                                      .rtr_write = ready && op == VIPL_RDMAP_WRITE,
                                      .rtr_read = ready && op == VIPL_RDMAP_READ_REQUEST};
}

bool vipl_tcp_foreign_gets_ready(const struct tcp_conn *conn)
{
    return conn->start.enhanced && conn->enhanced.peer_to_peer;
}

bool vipl_tcp_foreign_begin(struct tcp_conn *conn, const struct vipl_mpa_start *start)
{
    bool stated = start->enhanced && conn->enhanced.ird != DEPTH_NOT_STATED;
    conn->foreign = true;
    conn->tx.reads = stated ? clamp_depth(conn->enhanced.ird) : DEFAULT_READS;
    if (start->markers && !vipl_tcp_start_marking(conn)) {
        return false;
    }
    vipl_tcp_resegment(conn);
    return true;
}

/* --- replies --- */

static bool send_start_reply(struct tcp_conn *conn, bool reject, const struct tcp_private_data *data)
{
    struct vipl_mpa_enhanced ours = {.ird = TCP_MAX_READS,
                                     .ord = TCP_MAX_READS,
                                     .peer_to_peer = conn->enhanced.peer_to_peer,
                                     .rtr_write = conn->enhanced.peer_to_peer};
    if (conn->foreign) {
        ours = foreign_reply(&conn->enhanced);
        data = NULL; /* a foreign peer could not read the data */
    }
    struct vipl_mpa_start start = {
        .reply = true, .crc = conn->crc, .reject = reject, .revision = conn->start.revision};
    return vipl_tcp_start_send(conn, start, conn->start.enhanced ? &ours : NULL, data) == 0;
}

bool vipl_tcp_reply_accept(struct tcp_conn *conn, const struct vipl_vi_params *params,
                           const struct tcp_handler *handler)
{
    struct tcp_private_data data = {.kind = TCP_ACCEPT, .params = *params, .segment = TCP_SEGMENT};
    if (conn->foreign && !vipl_tcp_foreign_begin(conn, &conn->start)) {
        return false;
    }
    conn->state = TCP_REPLY_SENT;
    conn->handler = handler;
    vipl_tcp_conn_deadline(conn, conn->nic->settings.handshake_ms);
    return send_start_reply(conn, false, &data);
}

void vipl_tcp_reply_refuse(struct tcp_conn *conn, enum tcp_refusal reason, VIP_RETURN code)
{
    struct tcp_private_data data = {.kind = TCP_REFUSE, .reason = (uint8_t)reason, .code = (uint8_t)code};
    if (send_start_reply(conn, true, &data)) {
        vipl_tcp_conn_end(conn);
    } else {
        vipl_tcp_conn_close(conn);
    }
}
