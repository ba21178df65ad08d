/* SPDX-License-Identifier: MIT */
/*
 * The head of a message between datagram endpoints. Numbers are big-endian: kind, flags, pieces of
 * memory, 0; id (4); tag (8); data (8); length of the message (8). Behind the head of an offer come
 * the pieces: address (8), length (8), handle (4), 0 (4).
 *
 * A link is asked for with the address of the endpoint: 4 or 6, for a sockaddr_in or sockaddr_in6;
 * 0; port (2); address (4 or 16).
 */
#include <arpa/inet.h>
#include <endian.h>
#include <string.h>

#include "rdm.h"

enum { TAGGED = 1, DATA = 2 };

static void put_64(uint8_t *out, uint64_t value)
{
    value = htobe64(value);
    memcpy(out, &value, sizeof(value));
}

static void put_32(uint8_t *out, uint32_t value)
{
    value = htobe32(value);
    memcpy(out, &value, sizeof(value));
}

static uint64_t get_64(const uint8_t *in)
{
    uint64_t value;
    memcpy(&value, in, sizeof(value));
    return be64toh(value);
}

static uint32_t get_32(const uint8_t *in)
{
    uint32_t value;
    memcpy(&value, in, sizeof(value));
    return be32toh(value);
}

size_t rdm_name_write(const struct sockaddr_storage *from, uint8_t out[RDM_NAME_BYTES])
{
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    bool is_4 = from->ss_family == AF_INET;
    memcpy(&in, from, sizeof(in));
    memcpy(&in6, from, sizeof(in6));
    out[0] = is_4 ? 4 : 6;
    out[1] = 0;
    memcpy(out + 2, is_4 ? &in.sin_port : &in6.sin6_port, 2);
    memcpy(out + 4, is_4 ? (const void *)&in.sin_addr : (const void *)&in6.sin6_addr, is_4 ? 4 : 16);
    return is_4 ? 8 : RDM_NAME_BYTES;
}

size_t rdm_name_read(const uint8_t *in, size_t bytes, struct sockaddr_storage *out)
{
    struct sockaddr_in in_4 = {.sin_family = AF_INET};
    struct sockaddr_in6 in_6 = {.sin6_family = AF_INET6};
    memset(out, 0, sizeof(*out));
    if (bytes >= 8 && in[0] == 4) {
        memcpy(&in_4.sin_port, in + 2, 2);
        memcpy(&in_4.sin_addr, in + 4, 4);
        memcpy(out, &in_4, sizeof(in_4));
        return sizeof(in_4);
    }
    if (bytes >= RDM_NAME_BYTES && in[0] == 6) {
        memcpy(&in_6.sin6_port, in + 2, 2);
        memcpy(&in_6.sin6_addr, in + 4, 16);
        memcpy(out, &in_6, sizeof(in_6));
        return sizeof(in_6);
    }
    return 0;
}

size_t rdm_head_write(const struct rdm_head *head, uint8_t *out)
{
    out[0] = (uint8_t)head->kind;
    out[1] = (uint8_t)((head->tagged ? TAGGED : 0) | (head->has_data ? DATA : 0));
    out[2] = (uint8_t)head->count;
    out[3] = 0;
    put_32(out + 4, head->id);
    put_64(out + 8, head->tag);
    put_64(out + 16, head->data);
    put_64(out + 24, head->length);
    uint8_t *next = out + RDM_HEAD_BYTES;
    for (size_t i = 0; i < head->count; i++) {
        put_64(next, head->pieces[i].address);
        put_64(next + 8, head->pieces[i].length);
        put_32(next + 16, head->pieces[i].handle);
        put_32(next + 20, 0);
        next += RDM_PIECE_BYTES;
    }
    return (size_t)(next - out);
}

/* The pieces of an offer must make up the message. */
static bool read_pieces(const uint8_t *in, struct rdm_head *head)
{
    uint64_t left = head->length;
    for (size_t i = 0; i < head->count; i++) {
        struct rdm_piece *piece = &head->pieces[i];
        piece->address = get_64(in);
        piece->length = get_64(in + 8);
        piece->handle = get_32(in + 16);
        if (piece->length == 0 || piece->length > left) {
            return false;
        }
        left -= piece->length;
        in += RDM_PIECE_BYTES;
    }
    return left == 0;
}

/* Whether so many bytes are a whole message of that length, or the first part of one. */
static bool is_part(uint64_t length, size_t bytes)
{
    return length == bytes || (bytes == RDM_EAGER && length > RDM_EAGER && length <= RDM_COPIED);
}

size_t rdm_head_read(const uint8_t *in, size_t bytes, struct rdm_head *head)
{
    if (bytes < RDM_HEAD_BYTES || in[2] > PROV_IOVS) {
        return 0;
    }
    head->kind = (enum rdm_kind)in[0];
    head->tagged = (in[1] & TAGGED) != 0;
    head->has_data = (in[1] & DATA) != 0;
    head->count = in[2];
    head->id = get_32(in + 4);
    head->tag = get_64(in + 8);
    head->data = get_64(in + 16);
    head->length = get_64(in + 24);
    size_t whole = RDM_HEAD_BYTES + head->count * RDM_PIECE_BYTES;
    switch (in[0]) {
    case RDM_MESSAGE:
        return head->count == 0 && is_part(head->length, bytes - RDM_HEAD_BYTES) ? RDM_HEAD_BYTES : 0;
    case RDM_MORE:
        return head->count == 0 && head->length > 0 && head->length == bytes - RDM_HEAD_BYTES ? RDM_HEAD_BYTES
                                                                                              : 0;
    case RDM_OFFER:
        return head->count > 0 && bytes == whole && read_pieces(in + RDM_HEAD_BYTES, head) ? whole : 0;
    case RDM_DONE:
        return bytes == RDM_HEAD_BYTES && head->count == 0 ? RDM_HEAD_BYTES : 0;
    default:
        return 0;
    }
}
