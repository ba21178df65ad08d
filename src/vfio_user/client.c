/* SPDX-License-Identifier: MIT */
/*
 * One request is under way at a time. The thread that makes the request holds the lock until the
 * reply has arrived. While it waits, it serves the server's own requests, which the server may need
 * before it replies. A server that sends nothing for VFU_PATIENCE_MS is disconnected, and loses
 * what it had of this process. A server that has crashed is noticed at once, by its socket. The
 * timeout is long so that a server that is only not scheduled, on a busy machine or because its
 * user has stopped it, keeps its connections.
 */
#include "vfio_user/client.h"

#include <errno.h>
#include <string.h>

#include "base/deadline.h"
#include "base/lock_rank.h"
#include "os/os_atomic.h"

enum {
    ROOM_MS = 1,
    MAX_REQUEST = 64 + VFU_MAX_TEXT, /* bytes of a request without its data */
    MAX_TEXT = 4096                  /* bytes of a server's capabilities */
};

bool vfu_client_is_gone(const struct vfu_client *client)
{
    return vipl_load_acquire(&client->gone) != 0; /* pairs with hang_up() */
}

static int hang_up(struct vfu_client *c)
{
    if (!vfu_client_is_gone(c)) {
        vipl_unix_shutdown(c->channel.fd); /* wakes the threads that sleep on the descriptor */
        vipl_store_release(&c->gone, 1);   /* pairs with vfu_client_is_gone() */
    }
    return ENODEV;
}

/* Sends the bytes that are buffered, or disconnects. */
static int flush_requests(struct vfu_client *c, uint64_t deadline)
{
    int error;
    while ((error = vipl_framer_flush(&c->channel)) == EAGAIN && vipl_ms_left(deadline) > 0) {
        (void)vipl_poll(NULL, 0, ROOM_MS, NULL);
    }
    return error == 0 ? 0 : hang_up(c);
}

static int send_vfu_message(struct vfu_client *c, const struct vfu_header *header,
                            const struct vfu_request *r, const void *data, size_t data_bytes)
{
    uint8_t message[VFU_HEADER_BYTES + MAX_REQUEST];
    struct vfu_header whole = *header;
    whole.bytes = (uint32_t)(VFU_HEADER_BYTES + r->bytes + data_bytes);
    vfu_header_write(message, &whole);
    if (r->bytes > 0) {
        memcpy(message + VFU_HEADER_BYTES, r->payload, r->bytes);
    }
    int error = vipl_framer_send(&c->channel, message, VFU_HEADER_BYTES + r->bytes, data, data_bytes, r->pass,
                                 r->count);
    return error == 0 ? flush_requests(c, vipl_deadline(VFU_PATIENCE_MS)) : hang_up(c);
}

/* --- the server's requests --- */

static int access_memory(struct vfu_client *c, const struct vfu_message *m, struct vfu_dma *dma)
{
    bool is_write = m->header.command == VFU_DMA_WRITE;
    if (!vfu_dma_read(m->payload, m->bytes, dma) || dma->bytes > VFU_MAX_DATA ||
        (is_write && m->bytes - VFU_DMA_BYTES < dma->bytes)) {
        return EINVAL;
    }
    if (is_write) {
        memcpy(c->data, m->payload + VFU_DMA_BYTES, dma->bytes);
    }
    return c->dma(c->context, dma, c->data, is_write);
}

static int answer_server(struct vfu_client *c, const struct vfu_message *m)
{
    bool is_dma = m->header.command == VFU_DMA_READ || m->header.command == VFU_DMA_WRITE;
    struct vfu_dma dma = {0, 0};
    uint8_t payload[VFU_DMA_BYTES];
    int error = is_dma ? access_memory(c, m, &dma) : ENOTSUP;
    struct vfu_header header = {m->header.id, m->header.command, 0, VFU_REPLY, 0};
    struct vfu_request reply = {.payload = payload, .bytes = sizeof(payload)};
    size_t data_bytes = m->header.command == VFU_DMA_READ ? (size_t)dma.bytes : 0;
    if ((m->header.flags & VFU_NO_REPLY) != 0) {
        return 0;
    }
    if (error != 0) {
        header.flags |= VFU_ERROR;
        header.error = (uint32_t)error;
        reply.bytes = data_bytes = 0;
    }
    vfu_dma_write(payload, &dma);
    return send_vfu_message(c, &header, &reply, c->data, data_bytes);
}

/* --- requests --- */

static int read_reply(struct vfu_client *c, const struct vfu_message *m, const struct vfu_request *r)
{
    if ((m->header.flags & VFU_ERROR) != 0) {
        return m->header.error == 0 ? EIO : (int)m->header.error;
    }
    size_t bytes = m->bytes < r->reply_bytes ? m->bytes : r->reply_bytes;
    if (bytes < r->reply_bytes && r->reply_length == NULL) {
        return hang_up(c);
    }
    if (bytes > 0) {
        memcpy(r->reply, m->payload, bytes);
    }
    if (r->reply_length != NULL) {
        *r->reply_length = bytes;
    }
    if (r->reply_fd != NULL && c->channel.fd_count > 0) {
        *r->reply_fd = c->channel.fds[0];
        c->channel.fds[0] = -1;
    }
    return 0;
}

/* Handles one message that has arrived. A request of the server is answered. The reply that `r`
 * waits for sets *is_reply, and *error to its result. EAGAIN: no message has arrived. */
static int take_message(struct vfu_client *c, const struct vfu_request *r, bool *is_reply, int *error)
{
    struct vfu_message m;
    int received = vfu_channel_receive(&c->channel, &m);
    if (received != 0) {
        return received == EAGAIN ? EAGAIN : hang_up(c);
    }
    bool replies = (m.header.flags & VFU_TYPE) == VFU_REPLY;
    /* A server without a free function sends an error before it has received a request. */
    bool is_awaited = replies && r != NULL && m.header.command == r->command &&
                      (m.header.id == c->id || (m.header.id == 0 && (m.header.flags & VFU_ERROR) != 0));
    int result = 0;
    if (is_awaited) {
        *is_reply = true;
        *error = read_reply(c, &m, r);
    } else {
        result = replies ? hang_up(c) : answer_server(c, &m);
    }
    vipl_framer_next(&c->channel);
    return result;
}

static int await_vfu_reply(struct vfu_client *c, const struct vfu_request *r)
{
    uint64_t deadline = vipl_deadline(VFU_PATIENCE_MS);
    bool is_reply = false;
    int error = 0;
    while (!is_reply) {
        /* after the deadline the socket is read once more: this thread may not have been scheduled
         * before */
        int ms = vipl_ms_left(deadline);
        int result = take_message(c, r, &is_reply, &error);
        if (result == EAGAIN) {
            result = ms == 0 ? hang_up(c) : 0;
            (void)vipl_poll(&c->channel.fd, 1, ms, NULL);
        }
        if (result != 0) {
            return result;
        }
    }
    return error;
}

static int ask_locked(struct vfu_client *c, const struct vfu_request *r)
{
    struct vfu_header header = {0, (uint16_t)r->command, 0, 0, 0};
    if (vfu_client_is_gone(c)) {
        return ENODEV;
    }
    c->id = (uint16_t)(c->id == UINT16_MAX ? 1 : c->id + 1); /* never 0 */
    header.id = c->id;
    if (r->reply_fd != NULL) {
        *r->reply_fd = -1;
    }
    int error = send_vfu_message(c, &header, r, NULL, 0);
    return error == 0 ? await_vfu_reply(c, r) : error;
}

int vfu_client_ask(struct vfu_client *client, const struct vfu_request *request)
{
    int cancel = vipl_cancel_off();
    vipl_mutex_lock(&client->lock);
    int error = ask_locked(client, request);
    vipl_mutex_unlock(&client->lock);
    vipl_cancel_restore(cancel);
    return error;
}

void vfu_client_post(struct vfu_client *client, const struct vfu_access *access, const uint8_t *data)
{
    uint8_t payload[VFU_ACCESS_BYTES];
    struct vfu_request r = {.payload = payload, .bytes = sizeof(payload)};
    struct vfu_header header = {0, VFU_REGION_WRITE, 0, VFU_NO_REPLY, 0};
    vfu_access_write(payload, access);
    int cancel = vipl_cancel_off();
    vipl_mutex_lock(&client->lock);
    if (!vfu_client_is_gone(client)) {
        (void)send_vfu_message(client, &header, &r, data, access->bytes);
    }
    vipl_mutex_unlock(&client->lock);
    vipl_cancel_restore(cancel);
}

static void take_all_locked(struct vfu_client *c)
{
    bool none = false;
    int error = 0;
    while (!vfu_client_is_gone(c) && take_message(c, NULL, &none, &error) == 0) {
    }
}

void vfu_client_progress(struct vfu_client *client)
{
    int cancel = vipl_cancel_off();
    if (vipl_mutex_trylock(&client->lock)) {
        take_all_locked(client);
        vipl_mutex_unlock(&client->lock);
    }
    vipl_cancel_restore(cancel);
}

void vfu_client_serve(struct vfu_client *client)
{
    int cancel = vipl_cancel_off();
    vipl_mutex_lock(&client->lock);
    take_all_locked(client);
    vipl_mutex_unlock(&client->lock);
    vipl_cancel_restore(cancel);
}

/* --- opening and closing --- */

static int greet(struct vfu_client *c)
{
    const struct vfu_capabilities ours = {VFU_MAX_FDS, VFU_MAX_DATA, 65535, false, true};
    char text[VFU_MAX_TEXT];
    uint8_t payload[VFU_VERSION_BYTES + VFU_MAX_TEXT];
    uint8_t reply[VFU_VERSION_BYTES + MAX_TEXT];
    struct vfu_version version;
    size_t length = vfu_capabilities_write(text, &ours);
    vfu_version_write(payload, &(struct vfu_version){0, 0});
    memcpy(payload + VFU_VERSION_BYTES, text, length);
    struct vfu_request r = {.command = VFU_VERSION,
                            .payload = payload,
                            .bytes = VFU_VERSION_BYTES + length,
                            .reply = reply,
                            .reply_bytes = sizeof(reply),
                            .reply_length = &length};
    int error = vfu_client_ask(c, &r);
    bool good = error == 0 && vfu_version_read(reply, length, &version) && version.major == 0 &&
                vfu_capabilities_read((const char *)reply + VFU_VERSION_BYTES, length - VFU_VERSION_BYTES,
                                      &c->theirs);
    return good ? 0 : error == 0 ? EPROTO : error;
}

int vfu_client_open(struct vfu_client *client, int fd, vfu_client_dma *dma, void *context)
{
    memset(client, 0, sizeof(*client));
    vipl_mutex_init(&client->lock, VIPL_RANK_PCI);
    client->dma = dma;
    client->context = context;
    int error = vfu_channel_open(&client->channel, fd);
    client->data = vipl_alloc(VFU_MAX_DATA);
    error = error == 0 && client->data == NULL ? ENOMEM : error;
    error = error == 0 ? greet(client) : error;
    if (error != 0) {
        vfu_client_close(client);
    }
    return error;
}

void vfu_client_close(struct vfu_client *client)
{
    vipl_framer_close(&client->channel);
    vipl_free(client->data);
    client->data = NULL;
}
