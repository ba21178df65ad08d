/* SPDX-License-Identifier: MIT */
/* Control messages, to bytes and back. What comes from a peer is checked in every field. */
#include "backends/rnic/cm.h"

#include <string.h>

#include "rnic/entry.h"
#include "rnic/registers.h"

enum {
    HEADER = 16,
    ATTRIBUTES = 16,
    VERSION = 1,
    IS_PEER = 1,
    HAS_WRITE = 2,
    HAS_READ = 4,
    HAS_QOS = 8,
    IS_32_BIT = 16,
    FLAGS = 31
};

/* --- to bytes --- */

static size_t write_discriminator(const struct cm_discriminator *in, uint8_t *out)
{
    memcpy(out, in->bytes, in->length);
    return in->length;
}

static size_t write_params(const struct cm_message *message, uint8_t *out)
{
    const struct vipl_vi_params *params = &message->params;
    out[0] = VERSION;
    out[1] = (uint8_t)((message->peer ? IS_PEER : 0) | (params->rdma_write ? HAS_WRITE : 0) |
                       (params->rdma_read ? HAS_READ : 0) | (params->has_qos ? HAS_QOS : 0) |
                       (params->is_32_bit ? IS_32_BIT : 0));
    rnic_put16(out + 2, params->reliability, true);
    rnic_put64(out + 4, params->max_transfer_size, true);
    out[12] = message->ird;
    out[13] = message->ord;
    rnic_put16(out + 14, message->from.length, true);
    return ATTRIBUTES;
}

static size_t write_body(const struct cm_message *message, uint8_t *out)
{
    size_t bytes;
    switch (message->kind) {
    case RNIC_CONTROL_REQUEST:
        bytes = write_discriminator(&message->to, out);
        bytes += write_params(message, out + bytes);
        return bytes + write_discriminator(&message->from, out + bytes);
    case RNIC_CONTROL_CANCEL:
        return write_discriminator(&message->to, out);
    case RNIC_CONTROL_ACCEPT:
        return write_params(message, out);
    case RNIC_CONTROL_REJECT:
        if (message->reason == CM_DISAGREES) {
            rnic_put32(out, message->code, true);
            return 4;
        }
        return 0;
    default:
        return 0;
    }
}

size_t vipl_rnic_cm_write(const struct cm_message *message, uint8_t out[CM_MAX_BYTES])
{
    bool named = message->kind == RNIC_CONTROL_REQUEST || message->kind == RNIC_CONTROL_CANCEL;
    out[RNIC_CTL_KIND] = message->kind;
    out[RNIC_CTL_REASON] = message->reason;
    rnic_put16(out + RNIC_CTL_DISCRIMINATOR_LENGTH, named ? message->to.length : 0, true);
    rnic_put32(out + RNIC_CTL_SOURCE_QP, message->source_qp, true);
    rnic_put32(out + RNIC_CTL_DESTINATION_QP, message->destination_qp, true);
    rnic_put32(out + RNIC_CTL_SERIAL, message->serial, true);
    return HEADER + write_body(message, out + HEADER);
}

/* --- from bytes --- */

/* What has not been read yet. */
struct rest {
    const uint8_t *bytes;
    size_t length;
};

static const uint8_t *take_bytes(struct rest *rest, size_t bytes)
{
    const uint8_t *taken = rest->bytes;
    if (rest->length < bytes) {
        return NULL;
    }
    rest->bytes += bytes;
    rest->length -= bytes;
    return taken;
}

static bool read_discriminator(struct rest *rest, uint16_t length, struct cm_discriminator *out)
{
    const uint8_t *bytes = length <= VIPL_MAX_DISCRIMINATOR ? take_bytes(rest, length) : NULL;
    if (bytes == NULL) {
        return false;
    }
    out->length = length;
    memcpy(out->bytes, bytes, length);
    return true;
}

static bool is_level(uint16_t reliability)
{
    return reliability == VIP_SERVICE_UNRELIABLE || reliability == VIP_SERVICE_RELIABLE_DELIVERY ||
           reliability == VIP_SERVICE_RELIABLE_RECEPTION;
}

/* The bytes of the requester's discriminator, or -1. */
static int read_attributes(struct rest *rest, struct cm_message *out)
{
    const uint8_t *in = take_bytes(rest, ATTRIBUTES);
    if (in == NULL || in[0] != VERSION || (in[1] & ~FLAGS) != 0 || !is_level(rnic_get16(in + 2, true))) {
        return -1;
    }
    out->peer = (in[1] & IS_PEER) != 0;
    out->params.rdma_write = (in[1] & HAS_WRITE) != 0;
    out->params.rdma_read = (in[1] & HAS_READ) != 0;
    out->params.has_qos = (in[1] & HAS_QOS) != 0;
    out->params.is_32_bit = (in[1] & IS_32_BIT) != 0;
    out->params.reliability = rnic_get16(in + 2, true);
    out->params.max_transfer_size = rnic_get64(in + 4, true);
    out->ird = in[12];
    out->ord = in[13];
    return rnic_get16(in + 14, true);
}

static bool read_request(struct rest *rest, uint16_t named, struct cm_message *out)
{
    if (!read_discriminator(rest, named, &out->to)) {
        return false;
    }
    int from = read_attributes(rest, out);
    return from >= 0 && read_discriminator(rest, (uint16_t)from, &out->from);
}

static bool read_reject(struct rest *rest, struct cm_message *out)
{
    const uint8_t *code = out->reason == CM_DISAGREES ? take_bytes(rest, 4) : NULL;
    if (out->reason < CM_REJECTED || out->reason > CM_PENDING ||
        (out->reason == CM_DISAGREES && code == NULL)) {
        return false;
    }
    out->code = code == NULL ? 0 : rnic_get32(code, true);
    return true;
}

static bool read_body(struct rest *rest, uint16_t named, struct cm_message *out)
{
    switch (out->kind) {
    case RNIC_CONTROL_REQUEST:
        return read_request(rest, named, out) && rest->length == 0;
    case RNIC_CONTROL_CANCEL:
        return read_discriminator(rest, named, &out->to) && rest->length == 0;
    case RNIC_CONTROL_ACCEPT:
        return read_attributes(rest, out) == 0 && rest->length == 0;
    case RNIC_CONTROL_REJECT:
        return read_reject(rest, out) && rest->length == 0;
    case RNIC_CONTROL_REFUSED:
        return out->reason == RNIC_REFUSED_NO_LISTENER || out->reason == RNIC_REFUSED_BUSY;
    case RNIC_CONTROL_READY:
    case RNIC_CONTROL_DISCONNECT:
        return rest->length == 0;
    default:
        return false;
    }
}

bool vipl_rnic_cm_read(const uint8_t *bytes, size_t length, struct cm_message *out)
{
    struct rest rest = {bytes, length};
    if (take_bytes(&rest, HEADER) == NULL) {
        return false;
    }
    memset(out, 0, sizeof(*out));
    out->kind = bytes[RNIC_CTL_KIND];
    out->reason = bytes[RNIC_CTL_REASON];
    out->source_qp = rnic_get32(bytes + RNIC_CTL_SOURCE_QP, true);
    out->destination_qp = rnic_get32(bytes + RNIC_CTL_DESTINATION_QP, true);
    out->serial = rnic_get32(bytes + RNIC_CTL_SERIAL, true);
    return read_body(&rest, rnic_get16(bytes + RNIC_CTL_DISCRIMINATOR_LENGTH, true), out);
}
