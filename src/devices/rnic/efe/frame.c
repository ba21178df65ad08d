/* SPDX-License-Identifier: MIT */
/* The frame of EFE, read and written a byte at a time: right on every machine, at any alignment. */
#include "devices/rnic/efe/frame.h"

#include <string.h>

#include "iwarp/bytes.h"
#include "iwarp/crc32c.h"

/* Offsets from the destination MAC. */
enum {
    AT_FROM_MAC = 6,
    AT_ETHERTYPE = 12,
    AT_VERSION_TYPE = 14,
    AT_FLAGS = 15,
    AT_PAYLOAD_BYTES = 16,
    AT_FROM_FN = 18,
    AT_TO_FN = 20,
    AT_EPOCH = 22,
    AT_SEQUENCE = 26,
    AT_NEXT_EXPECTED = 30,
    AT_WINDOW = 34,
    AT_TO_QP = 36,
    AT_FROM_QP = 38,
    AT_ZERO = 40,
    AT_LEFT = 42,
    AT_MESSAGE = 46,
    AT_SENT = 50,
    AT_ECHO = 54,
    AT_HELD = 58
};

bool efe_type_is_numbered(unsigned type)
{
    return type == EFE_DATA || type == EFE_CONTROL || type == EFE_MESSAGE_ACK;
}

static bool frame_length_fits(unsigned type, uint32_t payload_bytes)
{
    if (type == EFE_ACK) {
        return payload_bytes == EFE_SACK_BYTES;
    }
    return efe_type_is_numbered(type) || payload_bytes == 0;
}

/* The CRC of headers and payload, and where it stands. Its bytes are in the order of MPA's: the
 * lowest first. */
static uint32_t frame_crc(const uint8_t *frame, uint32_t *at)
{
    *at = EFE_PAYLOAD_AT + (uint32_t)vipl_get16(frame + AT_PAYLOAD_BYTES);
    return vipl_crc32c(0, frame, *at);
}

static uint32_t frame_stored_crc(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static enum efe_fault frame_check(const uint8_t *frame, size_t bytes)
{
    if (bytes < EFE_PAYLOAD_AT + EFE_CRC_BYTES) {
        return EFE_FAULT_SHORT;
    }
    if (vipl_get16(frame + AT_ETHERTYPE) != EFE_ETHERTYPE) {
        return EFE_FAULT_ETHERTYPE;
    }
    if (frame[AT_VERSION_TYPE] >> 4 != EFE_VERSION) {
        return EFE_FAULT_VERSION;
    }
    uint32_t payload_bytes = vipl_get16(frame + AT_PAYLOAD_BYTES);
    if (bytes - EFE_PAYLOAD_AT - EFE_CRC_BYTES < payload_bytes) {
        return EFE_FAULT_SHORT;
    }
    uint32_t crc_at;
    uint32_t crc = frame_crc(frame, &crc_at);
    if (crc != frame_stored_crc(frame + crc_at)) {
        return EFE_FAULT_CRC;
    }
    unsigned type = frame[AT_VERSION_TYPE] & 0x0F;
    if (type < EFE_DATA || type > EFE_RESET) {
        return EFE_FAULT_TYPE;
    }
    return frame_length_fits(type, payload_bytes) ? EFE_FRAME_OK : EFE_FAULT_LENGTH;
}

enum efe_fault efe_frame_read(const uint8_t *frame, size_t bytes, struct efe_header *out)
{
    enum efe_fault fault = frame_check(frame, bytes);
    if (fault != EFE_FRAME_OK) {
        return fault;
    }
    memcpy(out->to_mac, frame, 6);
    memcpy(out->from_mac, frame + AT_FROM_MAC, 6);
    out->type = frame[AT_VERSION_TYPE] & 0x0F;
    out->flags = frame[AT_FLAGS] & (EFE_FIRST | EFE_LAST | EFE_ACK_NOW | EFE_NEW);
    out->payload_bytes = vipl_get16(frame + AT_PAYLOAD_BYTES);
    out->from_fn = vipl_get16(frame + AT_FROM_FN);
    out->to_fn = vipl_get16(frame + AT_TO_FN);
    out->epoch = vipl_get32(frame + AT_EPOCH);
    out->sequence = vipl_get32(frame + AT_SEQUENCE);
    out->next_expected = vipl_get32(frame + AT_NEXT_EXPECTED);
    out->window = vipl_get16(frame + AT_WINDOW);
    out->to_qp = vipl_get16(frame + AT_TO_QP);
    out->from_qp = vipl_get16(frame + AT_FROM_QP);
    out->left = vipl_get32(frame + AT_LEFT);
    out->message = vipl_get32(frame + AT_MESSAGE);
    out->sent = vipl_get32(frame + AT_SENT);
    out->echo = vipl_get32(frame + AT_ECHO);
    out->held = vipl_get32(frame + AT_HELD);
    return EFE_FRAME_OK;
}

void efe_frame_write(uint8_t *frame, const struct efe_header *header)
{
    memcpy(frame, header->to_mac, 6);
    memcpy(frame + AT_FROM_MAC, header->from_mac, 6);
    vipl_put16(frame + AT_ETHERTYPE, EFE_ETHERTYPE);
    frame[AT_VERSION_TYPE] = (uint8_t)(EFE_VERSION << 4 | header->type);
    frame[AT_FLAGS] = header->flags;
    vipl_put16(frame + AT_PAYLOAD_BYTES, header->payload_bytes);
    vipl_put16(frame + AT_FROM_FN, header->from_fn);
    vipl_put16(frame + AT_TO_FN, header->to_fn);
    vipl_put32(frame + AT_EPOCH, header->epoch);
    vipl_put32(frame + AT_SEQUENCE, header->sequence);
    vipl_put32(frame + AT_NEXT_EXPECTED, header->next_expected);
    vipl_put16(frame + AT_WINDOW, header->window);
    vipl_put16(frame + AT_TO_QP, header->to_qp);
    vipl_put16(frame + AT_FROM_QP, header->from_qp);
    vipl_put16(frame + AT_ZERO, 0);
    vipl_put32(frame + AT_LEFT, header->left);
    vipl_put32(frame + AT_MESSAGE, header->message);
    vipl_put32(frame + AT_SENT, header->sent);
    vipl_put32(frame + AT_ECHO, header->echo);
    vipl_put32(frame + AT_HELD, header->held);
}

uint32_t efe_frame_seal(uint8_t *frame)
{
    uint32_t at;
    uint32_t crc = frame_crc(frame, &at);
    for (unsigned i = 0; i < EFE_CRC_BYTES; i++) {
        frame[at + i] = (uint8_t)(crc >> 8 * i);
    }
    return at + EFE_CRC_BYTES;
}
