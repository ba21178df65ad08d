/* SPDX-License-Identifier: MIT */
/*
 * vfio-user. Handles one message at a time: checks, executes and answers it. A store to a register
 * is queued, and executed after the message has been answered: the card's accesses to the program's
 * memory then come after the reply, as QEMU needs it. No read overtakes a queued store, unless the
 * store only rings a doorbell.
 */
#include "adapter/function.h"

#include <errno.h>
#include <string.h>

#include "adapter/adapter.h"
#include "base/little.h"
#include "rnic/registers.h"
#include "vfio_user/capabilities.h"

/* What is about to be sent: the fixed part of a payload, and data behind it. */
struct reply {
    uint8_t payload[VFU_VERSION_BYTES + VFU_MAX_TEXT];
    size_t bytes;
    const uint8_t *data;
    size_t data_bytes;
    int fd; /* -1: none goes along */
};

static int send_reply(struct rnic_function *f, const struct vfu_header *to, int error,
                      const struct reply *reply)
{
    uint8_t message[VFU_HEADER_BYTES + sizeof(reply->payload)];
    size_t bytes = VFU_HEADER_BYTES + (error == 0 ? reply->bytes : 0);
    size_t data_bytes = error == 0 ? reply->data_bytes : 0;
    struct vfu_header header = {to->id, to->command, (uint32_t)(bytes + data_bytes),
                                VFU_REPLY | (error == 0 ? 0u : (uint32_t)VFU_ERROR), (uint32_t)error};
    if ((to->flags & VFU_NO_REPLY) != 0) {
        return 0;
    }
    vfu_header_write(message, &header);
    memcpy(message + VFU_HEADER_BYTES, reply->payload, bytes - VFU_HEADER_BYTES);
    return vipl_framer_send(&f->channel, message, bytes, reply->data, data_bytes, &reply->fd,
                            error == 0 && reply->fd >= 0 ? 1 : 0);
}

/* The whole answer is an error, or that there was none. */
static int reply_status(struct rnic_function *f, const struct vfu_message *m, int error)
{
    struct reply none = {.fd = -1};
    return send_reply(f, &m->header, error, &none);
}

/* --- about the connection and the device --- */

static int serve_version(struct rnic_function *f, const struct vfu_message *m)
{
    struct vfu_version version;
    struct vfu_capabilities theirs;
    struct vfu_capabilities ours = {VFU_MAX_FDS, RNIC_MAX_ACCESS, RNIC_DMA_MAX_MAPS, true, false};
    struct reply reply = {.fd = -1};
    if (f->greeted || !vfu_version_read(m->payload, m->bytes, &version) || version.major != 0 ||
        !vfu_capabilities_read((const char *)m->payload + VFU_VERSION_BYTES, m->bytes - VFU_VERSION_BYTES,
                               &theirs)) {
        return reply_status(f, m, EINVAL);
    }
    f->greeted = true;
    f->memory_file = ours.memory_file = theirs.memory_file;
    f->exchange.most = theirs.max_data < VFU_MAX_DATA ? (uint32_t)theirs.max_data : VFU_MAX_DATA;
    ours.write_multiple = theirs.write_multiple;
    vfu_version_write(reply.payload, &(struct vfu_version){0, 0});
    reply.bytes =
        VFU_VERSION_BYTES + vfu_capabilities_write((char *)reply.payload + VFU_VERSION_BYTES, &ours);
    return send_reply(f, &m->header, 0, &reply);
}

static int serve_info(struct rnic_function *f, const struct vfu_message *m)
{
    struct vfu_info info;
    struct reply reply = {.fd = -1, .bytes = VFU_INFO_BYTES};
    bool good = vfu_info_read(m->payload, m->bytes, &info);
    vfu_info_write(reply.payload, &(struct vfu_info){VFU_INFO_RESET | VFU_INFO_PCI, VFU_REGIONS, VFU_IRQS});
    return send_reply(f, &m->header, good ? 0 : EINVAL, &reply);
}

static int serve_region_info(struct rnic_function *f, const struct vfu_message *m)
{
    struct vfu_region_info info;
    struct reply reply = {.fd = -1, .bytes = VFU_REGION_INFO_BYTES};
    if (!vfu_region_info_read(m->payload, m->bytes, &info) || info.index >= VFU_REGIONS) {
        return reply_status(f, m, EINVAL);
    }
    info.bytes = rnic_region_bytes(f, info.index);
    info.flags = info.bytes > 0 ? VFU_REGION_CAN_READ | VFU_REGION_CAN_WRITE : 0;
    info.offset = 0;
    if (info.index == VFU_REGION_BAR0 + 2 || (info.index == VFU_REGION_BAR0 + 4 && info.bytes > 0)) {
        info.flags |= VFU_REGION_CAN_MAP;
        reply.fd = info.index == VFU_REGION_BAR0 + 2 ? f->bar2.fd : f->bar4.fd;
    }
    vfu_region_info_write(reply.payload, &info);
    return send_reply(f, &m->header, 0, &reply);
}

static uint32_t vectors_of(uint32_t index)
{
    return index == VFU_IRQ_MSIX ? RNIC_VECTORS : 0;
}

static int serve_irq_info(struct rnic_function *f, const struct vfu_message *m)
{
    struct vfu_irq_info info;
    struct reply reply = {.fd = -1, .bytes = VFU_IRQ_INFO_BYTES};
    if (!vfu_irq_info_read(m->payload, m->bytes, &info) || info.index >= VFU_IRQS) {
        return reply_status(f, m, EINVAL);
    }
    info.count = vectors_of(info.index);
    info.flags = info.count > 0 ? VFU_IRQ_CAN_EVENTFD : 0;
    vfu_irq_info_write(reply.payload, &info);
    return send_reply(f, &m->header, 0, &reply);
}

/* --- interrupts --- */

static void set_event(struct rnic_function *f, uint32_t vector, int fd)
{
    vipl_fd_close(f->events[vector]);
    f->events[vector] = fd;
    f->vectors_changed = true;
}

/* As many descriptors as vectors, or none: then these have no event any more. */
static int set_events(struct rnic_function *f, const struct vfu_irq_set *set)
{
    struct vipl_framer *channel = &f->channel;
    if (channel->fd_count != 0 && channel->fd_count != set->count) {
        return EINVAL;
    }
    for (unsigned i = 0; i < channel->fd_count; i++) {
        if (!vipl_event_is(channel->fds[i])) {
            return EINVAL;
        }
    }
    for (uint32_t i = 0; i < set->count; i++) {
        set_event(f, set->start + i, channel->fd_count > 0 ? channel->fds[i] : -1);
    }
    channel->fd_count = 0; /* they are kept */
    return 0;
}

static int set_irqs(struct rnic_function *f, const struct vfu_irq_set *set, const uint8_t *data,
                    size_t data_bytes)
{
    uint32_t vectors = vectors_of(set->index);
    uint32_t kind = set->flags & (VFU_IRQ_DATA_NONE | VFU_IRQ_DATA_BOOL | VFU_IRQ_DATA_EVENTFD);
    if (set->start > vectors || set->count > vectors - set->start || (set->flags & VFU_IRQ_TRIGGER) == 0) {
        return EINVAL;
    }
    if (kind == VFU_IRQ_DATA_EVENTFD) {
        return set_events(f, set);
    }
    if (kind != VFU_IRQ_DATA_NONE && (kind != VFU_IRQ_DATA_BOOL || data_bytes < set->count)) {
        return EINVAL;
    }
    for (uint32_t i = 0; kind == VFU_IRQ_DATA_NONE && set->start + set->count == 0 && i < vectors; i++) {
        set_event(f, i, -1); /* "none, from 0" ends all of them */
    }
    for (uint32_t i = 0; i < set->count; i++) {
        if (f->events[set->start + i] >= 0 && (kind == VFU_IRQ_DATA_NONE || data[i] != 0)) {
            vipl_event_signal(f->events[set->start + i]);
        }
    }
    return 0;
}

static int serve_set_irqs(struct rnic_function *f, const struct vfu_message *m)
{
    struct vfu_irq_set set;
    if (!vfu_irq_set_read(m->payload, m->bytes, &set)) {
        return reply_status(f, m, EINVAL);
    }
    return reply_status(f, m,
                        set_irqs(f, &set, m->payload + VFU_IRQ_SET_BYTES, m->bytes - VFU_IRQ_SET_BYTES));
}

/* --- memory --- */

static int serve_map(struct rnic_function *f, const struct vfu_message *m)
{
    struct vfu_dma_map map;
    int none = -1;
    if (!vfu_dma_map_read(m->payload, m->bytes, &map) || f->channel.fd_count > 1 ||
        ((map.flags & VFU_DMA_MEMORY_FILE) != 0 && !f->memory_file)) {
        return reply_status(f, m, EINVAL);
    }
    return reply_status(f, m,
                        rnic_dma_map(&f->dma, &map, f->channel.fd_count == 1 ? &f->channel.fds[0] : &none));
}

/* A range of which the card waits for a part is gone before the program is told so. */
static int serve_unmap(struct rnic_function *f, const struct vfu_message *m)
{
    struct vfu_dma_unmap unmap;
    struct reply reply = {.fd = -1, .bytes = VFU_DMA_UNMAP_BYTES};
    const struct rnic_exchange *x = &f->exchange;
    if (!vfu_dma_unmap_read(m->payload, m->bytes, &unmap)) {
        return reply_status(f, m, EINVAL);
    }
    if (x->data != NULL && unmap.address < x->iova + x->bytes &&
        x->iova <= unmap.address + (unmap.bytes - 1)) {
        return EBUSY;
    }
    vfu_dma_unmap_write(reply.payload, &unmap);
    return send_reply(f, &m->header, rnic_dma_unmap(&f->dma, unmap.address, unmap.bytes), &reply);
}

/* The program's answer to a DMA. Of one that nothing waits for any more only that it came is of
 * interest. */
static int serve_reply(struct rnic_function *f, const struct vfu_message *m)
{
    struct vfu_dma dma;
    bool has_dma = vfu_dma_read(m->payload, m->bytes, &dma);
    return rnic_exchange_answer(f, m->header.id, (m->header.flags & VFU_ERROR) != 0,
                                has_dma ? m->payload + VFU_DMA_BYTES : NULL,
                                has_dma ? m->bytes - VFU_DMA_BYTES : 0);
}

static int send_dma(struct rnic_function *f)
{
    const struct rnic_exchange *x = &f->exchange;
    uint8_t message[VFU_HEADER_BYTES + VFU_DMA_BYTES];
    uint32_t data_bytes = x->is_write ? x->bytes : 0;
    struct vfu_header header = {x->id, x->is_write ? VFU_DMA_WRITE : VFU_DMA_READ,
                                (uint32_t)sizeof(message) + data_bytes, 0, 0};
    vfu_header_write(message, &header);
    vfu_dma_write(message + VFU_HEADER_BYTES, &(struct vfu_dma){x->iova, x->bytes});
    return vipl_framer_send(&f->channel, message, sizeof(message), x->data, data_bytes, NULL, 0);
}

/* --- registers --- */

/* Registers may be read before a doorbell is executed. */
static bool may_read(const struct rnic_function *f, const struct vfu_access *access)
{
    return f->kept_count == 0 || (access->region == VFU_REGION_BAR0 && rnic_stores_only_ring(f));
}

static int serve_read(struct rnic_function *f, const struct vfu_message *m)
{
    struct vfu_access access;
    struct reply reply = {.fd = -1, .bytes = VFU_ACCESS_BYTES, .data = f->adapter->data};
    if (!vfu_access_read(m->payload, m->bytes, &access) || !rnic_access_is_valid(f, &access)) {
        return reply_status(f, m, EINVAL);
    }
    if (!may_read(f, &access)) {
        return EBUSY;
    }
    rnic_access_read(f, &access, f->adapter->data);
    vfu_access_write(reply.payload, &access);
    reply.data_bytes = access.bytes;
    return send_reply(f, &m->header, 0, &reply);
}

static int serve_write(struct rnic_function *f, const struct vfu_message *m)
{
    struct vfu_access access;
    struct reply reply = {.fd = -1, .bytes = VFU_ACCESS_BYTES};
    if (!vfu_access_read(m->payload, m->bytes, &access) || !rnic_access_is_valid(f, &access) ||
        m->bytes - VFU_ACCESS_BYTES < access.bytes) {
        return reply_status(f, m, EINVAL);
    }
    if (!rnic_stores_keep(f, &access, m->payload + VFU_ACCESS_BYTES)) {
        return EBUSY;
    }
    vfu_access_write(reply.payload, &access);
    return send_reply(f, &m->header, 0, &reply);
}

/* True: all of it are stores of 8 bytes at most to where there are registers. */
static bool check_multi(const struct rnic_function *f, const struct vfu_message *m, uint64_t *count)
{
    *count = m->bytes < VFU_MULTI_BYTES ? 0 : vipl_get_little64(m->payload);
    bool good = m->bytes >= VFU_MULTI_BYTES && *count <= (m->bytes - VFU_MULTI_BYTES) / VFU_MULTI_ONE_BYTES &&
                *count <= RNIC_MAX_KEPT;
    for (uint64_t i = 0; good && i < *count; i++) {
        struct vfu_access access;
        good = vfu_access_read(m->payload + VFU_MULTI_BYTES + i * VFU_MULTI_ONE_BYTES, VFU_MULTI_ONE_BYTES,
                               &access) &&
               access.bytes <= RNIC_KEPT_BYTES && rnic_access_is_valid(f, &access);
    }
    return good;
}

static int serve_write_multi(struct rnic_function *f, const struct vfu_message *m)
{
    struct reply reply = {.fd = -1, .bytes = VFU_MULTI_BYTES};
    uint64_t count;
    if (!check_multi(f, m, &count)) {
        return reply_status(f, m, EINVAL);
    }
    if (count > RNIC_MAX_KEPT - f->kept_count) {
        return EBUSY;
    }
    for (uint64_t i = 0; i < count; i++) {
        struct vfu_access access;
        const uint8_t *one = m->payload + VFU_MULTI_BYTES + i * VFU_MULTI_ONE_BYTES;
        (void)vfu_access_read(one, VFU_MULTI_ONE_BYTES, &access);
        (void)rnic_stores_keep(f, &access, one + VFU_ACCESS_BYTES); /* there is room for all */
    }
    vipl_put_little(reply.payload, count, 8);
    return send_reply(f, &m->header, 0, &reply);
}

static int serve_reset(struct rnic_function *f, const struct vfu_message *m, bool in_card)
{
    if (in_card) {
        return EBUSY;
    }
    rnic_function_reset(f);
    return reply_status(f, m, 0);
}

/* --- all of them --- */

static int serve_command(struct rnic_function *f, const struct vfu_message *m, bool in_card)
{
    if (!f->greeted && m->header.command != VFU_VERSION) {
        return EPROTO;
    }
    switch (m->header.command) {
    case VFU_VERSION:
        return serve_version(f, m);
    case VFU_DMA_MAP:
        return serve_map(f, m);
    case VFU_DMA_UNMAP:
        return serve_unmap(f, m);
    case VFU_GET_INFO:
        return serve_info(f, m);
    case VFU_GET_REGION_INFO:
        return serve_region_info(f, m);
    case VFU_GET_IRQ_INFO:
        return serve_irq_info(f, m);
    case VFU_SET_IRQS:
        return serve_set_irqs(f, m);
    case VFU_REGION_READ:
        return serve_read(f, m);
    case VFU_REGION_WRITE:
        return serve_write(f, m);
    case VFU_REGION_WRITE_MULTI:
        return serve_write_multi(f, m);
    case VFU_RESET:
        return serve_reset(f, m, in_card);
    default:
        return reply_status(f, m, ENOTSUP);
    }
}

static int serve_request(struct rnic_function *f, bool in_card)
{
    struct vfu_message message;
    /* a program that takes no replies is not served */
    int error = vipl_framer_flush(&f->channel);
    error = error == 0 ? vfu_channel_receive(&f->channel, &message) : error;
    if (error != 0) {
        return error;
    }
    uint32_t type = message.header.flags & VFU_TYPE;
    error = type == VFU_REPLY ? serve_reply(f, &message)
            : type == 0       ? serve_command(f, &message, in_card)
                              : EPROTO;
    if (error != EBUSY) {
        vipl_framer_next(&f->channel);
    }
    return error;
}

/* An error reply to a program that has made no request. */
static void refuse_program(int fd)
{
    uint8_t message[VFU_HEADER_BYTES];
    size_t sent;
    struct vfu_header header = {0, VFU_VERSION, sizeof(message), VFU_REPLY | VFU_ERROR, EBUSY};
    vfu_header_write(message, &header);
    (void)vipl_unix_send(fd, message, sizeof(message), NULL, 0, &sent);
    vipl_fd_close(fd);
}

const struct rnic_protocol rnic_vfio_user_protocol = {
    .open = vfu_channel_open, .serve = serve_request, .send_dma = send_dma, .refuse = refuse_program};
