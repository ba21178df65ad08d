/* SPDX-License-Identifier: MIT */
/* Writing and reading the packets of connecting. */
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

static void put(struct cursor *c, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        *c->at++ = (uint8_t)(value >> (8 * (bytes - 1 - i)));
    }
}

static uint64_t get(struct cursor *c, unsigned bytes)
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
    put(c, p->max_transfer_size, 8);
    put(c, p->reliability, 2);
    put(c, (p->rdma_write ? 1u : 0u) | (p->rdma_read ? 2u : 0u) | (p->has_qos ? 4u : 0u), 1);
}

static void get_params(struct cursor *c, struct vipl_vi_params *p)
{
    p->max_transfer_size = get(c, 8);
    p->reliability = (uint16_t)get(c, 2);
    uint64_t bits = get(c, 1);
    p->rdma_write = (bits & 1) != 0;
    p->rdma_read = (bits & 2) != 0;
    p->has_qos = (bits & 4) != 0;
    p->foreign = false;
    p->is_32_bit = sizeof(void *) == 4; /* or the two do not connect */
}

static void put_address(struct cursor *c, const struct vipl_address *a)
{
    put(c, a->host_len, 2);
    put(c, a->disc_len, 2);
    put_bytes(c, a->host, sizeof(a->host));
    put_bytes(c, a->disc, sizeof(a->disc));
}

static void get_address(struct cursor *c, struct vipl_address *a)
{
    a->host_len = (uint16_t)get(c, 2);
    a->disc_len = (uint16_t)get(c, 2);
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

/* --- who writes --- */

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
    put(c, writer->version, 1);
    put(c, writer->byte_order, 1);
    put(c, writer->word_bytes, 1);
}

static bool get_writer(struct cursor *c, const uint8_t magic[4], struct lo_writer *writer)
{
    if (!has_magic(c, magic)) {
        return false;
    }
    writer->version = (uint8_t)get(c, 1);
    writer->byte_order = (uint8_t)get(c, 1);
    writer->word_bytes = (uint8_t)get(c, 1);
    return c->ok;
}

/* --- packets --- */

size_t vipl_lo_connect_request_write(const struct lo_connect_request *r, uint8_t bytes[LO_PACKET])
{
    struct cursor c = {bytes, LO_PACKET, true};
    put_writer(&c, request_magic, &r->writer);
    put(&c, r->peer, 1);
    put_bytes(&c, r->process, LO_UID);
    put_bytes(&c, r->nic, LO_UID);
    put(&c, r->id, 8);
    put(&c, r->probe_address, 8);
    put(&c, r->probe_value, 4);
    put(&c, r->tag, 4);
    put(&c, r->generation, 4);
    put(&c, r->slot, 2);
    put(&c, r->number, 1);
    put(&c, r->place, 1);
    put_params(&c, &r->params);
    put_address(&c, &r->local);
    put_address(&c, &r->remote);
    return (size_t)(c.at - bytes);
}

bool vipl_lo_connect_request_read(struct lo_connect_request *r, const uint8_t *bytes, size_t length)
{
    struct cursor c = {(uint8_t *)(uintptr_t)bytes, length, true};
    if (!get_writer(&c, request_magic, &r->writer)) {
        return false;
    }
    if (!vipl_lo_writer_fits(&r->writer)) {
        return true; /* the caller refuses it; what follows may look different there */
    }
    r->peer = get(&c, 1) != 0;
    get_bytes(&c, r->process, LO_UID);
    get_bytes(&c, r->nic, LO_UID);
    r->id = get(&c, 8);
    r->probe_address = get(&c, 8);
    r->probe_value = (uint32_t)get(&c, 4);
    r->tag = (uint32_t)get(&c, 4);
    r->generation = (uint32_t)get(&c, 4);
    r->slot = (uint16_t)get(&c, 2);
    r->number = (uint8_t)get(&c, 1);
    r->place = (uint8_t)get(&c, 1);
    get_params(&c, &r->params);
    get_address(&c, &r->local);
    get_address(&c, &r->remote);
    return c.ok;
}

size_t vipl_lo_notice_write(const struct lo_notice *notice, uint8_t bytes[LO_PACKET])
{
    struct cursor c = {bytes, LO_PACKET, true};
    put_writer(&c, notice_magic, &notice->writer);
    put(&c, notice->place, 1);
    return (size_t)(c.at - bytes);
}

bool vipl_lo_notice_read(struct lo_notice *notice, const uint8_t *bytes, size_t length)
{
    struct cursor c = {(uint8_t *)(uintptr_t)bytes, length, true};
    if (!get_writer(&c, notice_magic, &notice->writer)) {
        return false;
    }
    if (vipl_lo_writer_fits(&notice->writer)) {
        notice->place = (uint8_t)get(&c, 1);
    }
    return c.ok;
}

size_t vipl_lo_reply_write(const struct lo_reply *a, uint8_t bytes[LO_PACKET])
{
    struct cursor c = {bytes, LO_PACKET, true};
    put_bytes(&c, reply_magic, 4);
    put(&c, a->type, 1);
    put(&c, a->code, 1);
    put(&c, a->new_link, 1);
    put(&c, a->direct_access, 1);
    put_bytes(&c, a->nic, LO_UID);
    put(&c, a->link, 8);
    put(&c, a->slots, 4);
    put(&c, a->session, 4);
    put(&c, a->tag, 4);
    put(&c, a->probe_value, 4);
    put(&c, a->probe_address, 8);
    put_params(&c, &a->params);
    return (size_t)(c.at - bytes);
}

bool vipl_lo_reply_read(struct lo_reply *a, const uint8_t *bytes, size_t length)
{
    struct cursor c = {(uint8_t *)(uintptr_t)bytes, length, true};
    if (!has_magic(&c, reply_magic)) {
        return false;
    }
    a->type = (uint8_t)get(&c, 1);
    a->code = (uint8_t)get(&c, 1);
    a->new_link = get(&c, 1) != 0;
    a->direct_access = get(&c, 1) != 0;
    get_bytes(&c, a->nic, LO_UID);
    a->link = get(&c, 8);
    a->slots = (uint32_t)get(&c, 4);
    a->session = (uint32_t)get(&c, 4);
    a->tag = (uint32_t)get(&c, 4);
    a->probe_value = (uint32_t)get(&c, 4);
    a->probe_address = get(&c, 8);
    get_params(&c, &a->params);
    return c.ok;
}
