/* SPDX-License-Identifier: MIT */
/* The packets of connecting: writing and reading them. */
#include "backends/loopback/request.h"

#include <string.h>

static const uint8_t request_magic[4] = {'V', 'L', 'C', 'R'};
static const uint8_t notice_magic[4] = {'V', 'L', 'N', 'O'};
static const uint8_t reply_magic[4] = {'V', 'L', 'R', 'E'};

/* A position in a packet; `ok` turns false at its end. */
struct cursor {
    uint8_t *at;
    size_t left;
    bool ok;
};

static void put_big_endian(struct cursor *c, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        *c->at++ = (uint8_t)(value >> (8 * (bytes - 1 - i)));
    }
}

static uint64_t get_big_endian(struct cursor *c, unsigned bytes)
{
    uint64_t value = 0;
    if (c->left < bytes) {
        c->ok = false;
        return 0;
    }
    for (unsigned i = 0; i < bytes; i++) {
        value = value << 8 | *c->at++;
    }
    c->left -= bytes;
    return value;
}

static void put_bytes(struct cursor *c, const uint8_t *bytes, size_t n)
{
    memcpy(c->at, bytes, n);
    c->at += n;
}

static void get_bytes(struct cursor *c, uint8_t *bytes, size_t n)
{
    if (c->left < n) {
        c->ok = false;
        return;
    }
    memcpy(bytes, c->at, n);
    c->at += n;
    c->left -= n;
}

static void put_params(struct cursor *c, const struct vipl_vi_params *p)
{
    put_big_endian(c, p->max_transfer_size, 8);
    put_big_endian(c, p->reliability, 2);
    put_big_endian(c, (p->rdma_write ? 1u : 0u) | (p->rdma_read ? 2u : 0u) | (p->has_qos ? 4u : 0u), 1);
}

static void get_params(struct cursor *c, struct vipl_vi_params *p)
{
    p->max_transfer_size = get_big_endian(c, 8);
    p->reliability = (uint16_t)get_big_endian(c, 2);
    uint64_t bits = get_big_endian(c, 1);
    p->rdma_write = (bits & 1) != 0;
    p->rdma_read = (bits & 2) != 0;
    p->has_qos = (bits & 4) != 0;
    p->foreign = false;
    p->is_32_bit = sizeof(void *) == 4; /* otherwise the two do not connect */
}

static void put_endpoint(struct cursor *c, const struct vipl_address *a)
{
    put_big_endian(c, a->host_len, 2);
    put_big_endian(c, a->disc_len, 2);
    put_bytes(c, a->host, sizeof(a->host));
    put_bytes(c, a->disc, sizeof(a->disc));
}

static void get_endpoint(struct cursor *c, struct vipl_address *a)
{
    a->host_len = (uint16_t)get_big_endian(c, 2);
    a->disc_len = (uint16_t)get_big_endian(c, 2);
    get_bytes(c, a->host, sizeof(a->host));
    get_bytes(c, a->disc, sizeof(a->disc));
    c->ok = c->ok && a->host_len <= sizeof(a->host) && a->disc_len <= sizeof(a->disc);
}

static bool has_magic(struct cursor *c, const uint8_t magic[4])
{
    uint8_t bytes[4] = {0};
    get_bytes(c, bytes, 4);
    return c->ok && memcmp(bytes, magic, 4) == 0;
}

/* --- the kind of the writer --- */

static uint8_t own_byte_order(void)
{
    const uint16_t one = 1;
    uint8_t first;
    memcpy(&first, &one, 1);
    return first == 1 ? 1 : 2;
}

struct lo_writer vipl_lo_own_kind(void)
{
    return (struct lo_writer){LO_VERSION, own_byte_order(), sizeof(void *)};
}

bool vipl_lo_writer_fits(const struct lo_writer *writer)
{
    return writer->version == LO_VERSION && writer->byte_order == own_byte_order() &&
           writer->word_bytes == sizeof(void *);
}

static void put_writer(struct cursor *c, const uint8_t magic[4], const struct lo_writer *writer)
{
    put_bytes(c, magic, 4);
    put_big_endian(c, writer->version, 1);
    put_big_endian(c, writer->byte_order, 1);
    put_big_endian(c, writer->word_bytes, 1);
}

static bool get_writer(struct cursor *c, const uint8_t magic[4], struct lo_writer *writer)
{
    if (!has_magic(c, magic)) {
        return false;
    }
    writer->version = (uint8_t)get_big_endian(c, 1);
    writer->byte_order = (uint8_t)get_big_endian(c, 1);
    writer->word_bytes = (uint8_t)get_big_endian(c, 1);
    return c->ok;
}

/* --- packets --- */

size_t vipl_lo_connect_request_write(const struct lo_connect_request *request, uint8_t bytes[LO_PACKET])
{
    struct cursor c = {bytes, LO_PACKET, true};
    put_writer(&c, request_magic, &request->writer);
    put_big_endian(&c, request->peer, 1);
    put_bytes(&c, request->process, LO_UID);
    put_bytes(&c, request->nic, LO_UID);
    put_big_endian(&c, request->id, 8);
    put_big_endian(&c, request->mark.address, 8);
    put_big_endian(&c, request->mark.value, 4);
    put_big_endian(&c, request->tag, 4);
    put_big_endian(&c, request->generation, 4);
    put_big_endian(&c, request->slot, 2);
    put_big_endian(&c, request->number, 1);
    put_big_endian(&c, request->place, 1);
    put_params(&c, &request->params);
    put_endpoint(&c, &request->local);
    put_endpoint(&c, &request->remote);
    return (size_t)(c.at - bytes);
}

bool vipl_lo_connect_request_read(struct lo_connect_request *request, const uint8_t *bytes, size_t length)
{
    struct cursor c = {(uint8_t *)(uintptr_t)bytes, length, true};
    if (!get_writer(&c, request_magic, &request->writer)) {
        return false;
    }
    if (!vipl_lo_writer_fits(&request->writer)) {
        return true; /* the caller refuses it; the rest may have another layout */
    }
    request->peer = get_big_endian(&c, 1) != 0;
    get_bytes(&c, request->process, LO_UID);
    get_bytes(&c, request->nic, LO_UID);
    request->id = get_big_endian(&c, 8);
    request->mark.address = get_big_endian(&c, 8);
    request->mark.value = (uint32_t)get_big_endian(&c, 4);
    request->tag = (uint32_t)get_big_endian(&c, 4);
    request->generation = (uint32_t)get_big_endian(&c, 4);
    request->slot = (uint16_t)get_big_endian(&c, 2);
    request->number = (uint8_t)get_big_endian(&c, 1);
    request->place = (uint8_t)get_big_endian(&c, 1);
    get_params(&c, &request->params);
    get_endpoint(&c, &request->local);
    get_endpoint(&c, &request->remote);
    return c.ok;
}

size_t vipl_lo_notice_write(const struct lo_notice *notice, uint8_t bytes[LO_PACKET])
{
    struct cursor c = {bytes, LO_PACKET, true};
    put_writer(&c, notice_magic, &notice->writer);
    put_big_endian(&c, notice->place, 1);
    return (size_t)(c.at - bytes);
}

bool vipl_lo_notice_read(struct lo_notice *notice, const uint8_t *bytes, size_t length)
{
    struct cursor c = {(uint8_t *)(uintptr_t)bytes, length, true};
    if (!get_writer(&c, notice_magic, &notice->writer)) {
        return false;
    }
    if (vipl_lo_writer_fits(&notice->writer)) {
        notice->place = (uint8_t)get_big_endian(&c, 1);
    }
    return c.ok;
}

size_t vipl_lo_reply_write(const struct lo_reply *reply, uint8_t bytes[LO_PACKET])
{
    struct cursor c = {bytes, LO_PACKET, true};
    put_bytes(&c, reply_magic, 4);
    put_big_endian(&c, reply->type, 1);
    put_big_endian(&c, reply->code, 1);
    put_big_endian(&c, reply->new_link, 1);
    put_big_endian(&c, reply->direct_access, 1);
    put_bytes(&c, reply->nic, LO_UID);
    put_big_endian(&c, reply->link, 8);
    put_big_endian(&c, reply->slots, 4);
    put_big_endian(&c, reply->session, 4);
    put_big_endian(&c, reply->tag, 4);
    put_big_endian(&c, reply->mark.value, 4);
    put_big_endian(&c, reply->mark.address, 8);
    put_params(&c, &reply->params);
    put_big_endian(&c, reply->generation, 4);
    put_big_endian(&c, reply->slot, 2);
    put_big_endian(&c, reply->number, 1);
    return (size_t)(c.at - bytes);
}

bool vipl_lo_reply_read(struct lo_reply *reply, const uint8_t *bytes, size_t length)
{
    struct cursor c = {(uint8_t *)(uintptr_t)bytes, length, true};
    if (!has_magic(&c, reply_magic)) {
        return false;
    }
    reply->type = (uint8_t)get_big_endian(&c, 1);
    reply->code = (uint8_t)get_big_endian(&c, 1);
    reply->new_link = get_big_endian(&c, 1) != 0;
    reply->direct_access = get_big_endian(&c, 1) != 0;
    get_bytes(&c, reply->nic, LO_UID);
    reply->link = get_big_endian(&c, 8);
    reply->slots = (uint32_t)get_big_endian(&c, 4);
    reply->session = (uint32_t)get_big_endian(&c, 4);
    reply->tag = (uint32_t)get_big_endian(&c, 4);
    reply->mark.value = (uint32_t)get_big_endian(&c, 4);
    reply->mark.address = get_big_endian(&c, 8);
    get_params(&c, &reply->params);
    reply->generation = (uint32_t)get_big_endian(&c, 4);
    reply->slot = (uint16_t)get_big_endian(&c, 2);
    reply->number = (uint8_t)get_big_endian(&c, 1);
    return c.ok;
}
