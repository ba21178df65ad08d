/* SPDX-License-Identifier: MIT */
/* Writing and reading the rendezvous packets. */
#include "backends/loopback/request.h"

#include <string.h>

static const uint8_t hello_magic[4] = {'V', 'L', 'H', 'O'};
static const uint8_t answer_magic[4] = {'V', 'L', 'A', 'N'};

/* To an older reader all but 0 are symmetric: he answers the last with NO, and the request stays where it is. */
enum { KIND_CLIENT, KIND_PEER, KIND_BESIDE };

/* A place in a packet; `ok` turns false at its end. */
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

static void put_params(struct cursor *c, const struct vipl_vi_params *f)
{
    put(c, f->max_transfer_size, 8);
    put(c, f->reliability, 2);
    put(c, (f->rdma_write ? 1u : 0u) | (f->rdma_read ? 2u : 0u) | (f->has_qos ? 4u : 0u), 1);
}

static void get_params(struct cursor *c, struct vipl_vi_params *f)
{
    f->max_transfer_size = get(c, 8);
    f->reliability = (uint16_t)get(c, 2);
    uint64_t bits = get(c, 1);
    f->rdma_write = (bits & 1) != 0;
    f->rdma_read = (bits & 2) != 0;
    f->has_qos = (bits & 4) != 0;
    f->foreign = false;
    f->is_32_bit = sizeof(void *) == 4; /* or the two do not connect */
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

size_t vipl_lo_hello_write(const struct lo_hello *h, uint8_t bytes[LO_PACKET])
{
    struct cursor c = {bytes, LO_PACKET, true};
    put_bytes(&c, hello_magic, 4);
    put(&c, h->version, 1);
    put(&c, h->byte_order, 1);
    put(&c, h->word_bytes, 1);
    put(&c, h->peer ? KIND_PEER : h->beside ? KIND_BESIDE : KIND_CLIENT, 1);
    put_bytes(&c, h->process, LO_UID);
    put_bytes(&c, h->nic, LO_UID);
    put(&c, h->id, 8);
    put(&c, h->probe_address, 8);
    put(&c, h->probe_value, 4);
    put(&c, h->tag, 4);
    put_params(&c, &h->params);
    put_address(&c, &h->local);
    put_address(&c, &h->remote);
    return (size_t)(c.at - bytes);
}

bool vipl_lo_hello_read(struct lo_hello *h, const uint8_t *bytes, size_t length)
{
    struct cursor c = {(uint8_t *)(uintptr_t)bytes, length, true};
    if (!has_magic(&c, hello_magic)) {
        return false;
    }
    h->version = (uint8_t)get(&c, 1);
    h->byte_order = (uint8_t)get(&c, 1);
    h->word_bytes = (uint8_t)get(&c, 1);
    uint64_t kind = get(&c, 1);
    h->beside = kind == KIND_BESIDE;
    h->peer = kind != KIND_CLIENT && !h->beside;
    if (!c.ok || !vipl_lo_hello_fits(h)) {
        return c.ok; /* the caller refuses it; what follows may look different there */
    }
    get_bytes(&c, h->process, LO_UID);
    get_bytes(&c, h->nic, LO_UID);
    h->id = get(&c, 8);
    h->probe_address = get(&c, 8);
    h->probe_value = (uint32_t)get(&c, 4);
    h->tag = (uint32_t)get(&c, 4);
    get_params(&c, &h->params);
    get_address(&c, &h->local);
    get_address(&c, &h->remote);
    return c.ok;
}

size_t vipl_lo_answer_write(const struct lo_answer *a, uint8_t bytes[LO_PACKET])
{
    struct cursor c = {bytes, LO_PACKET, true};
    put_bytes(&c, answer_magic, 4);
    put(&c, a->type, 1);
    put(&c, a->code, 1);
    put(&c, a->new_link, 1);
    put(&c, a->can_reach, 1);
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

bool vipl_lo_answer_read(struct lo_answer *a, const uint8_t *bytes, size_t length)
{
    struct cursor c = {(uint8_t *)(uintptr_t)bytes, length, true};
    if (!has_magic(&c, answer_magic)) {
        return false;
    }
    a->type = (uint8_t)get(&c, 1);
    a->code = (uint8_t)get(&c, 1);
    a->new_link = get(&c, 1) != 0;
    a->can_reach = get(&c, 1) != 0;
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

static uint8_t own_byte_order(void)
{
    const uint16_t one = 1;
    uint8_t first;
    memcpy(&first, &one, 1);
    return first == 1 ? 1 : 2;
}

void vipl_lo_hello_identify(struct lo_hello *hello)
{
    hello->version = LO_VERSION;
    hello->byte_order = own_byte_order();
    hello->word_bytes = sizeof(void *);
}

bool vipl_lo_hello_fits(const struct lo_hello *hello)
{
    return hello->version == LO_VERSION && hello->byte_order == own_byte_order() &&
           hello->word_bytes == sizeof(void *);
}
