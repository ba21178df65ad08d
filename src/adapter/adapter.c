/* SPDX-License-Identifier: MIT */
/* The adapter's turns, its sleep, and the callbacks of the card. */
#include "adapter/adapter.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "adapter/mac.h"

enum { READY_BATCH = 32, FRAME_BATCH = 64, RNIC_MIN_MTU = 576 };
static const uint64_t LINGER_NS = UINT64_C(2000000000);
static const uint64_t AGAIN_NS = 100000000; /* until what the system has refused is tried again */

/* --- the card's callbacks --- */

static struct rnic_function *function_of(void *context, unsigned fn)
{
    struct rnic_adapter *a = context;
    a->is_active = true;
    return &a->functions[fn];
}

static bool read_memory(void *context, unsigned fn, uint64_t iova, void *out, uint32_t bytes)
{
    return rnic_function_dma(function_of(context, fn), &(struct rnic_dma_access){iova, out, bytes, false});
}

static bool write_memory(void *context, unsigned fn, uint64_t iova, const void *in, uint32_t bytes)
{
    struct rnic_function *f = function_of(context, fn);
    /* it is only read */
    struct rnic_dma_access access = {iova, (uint8_t *)(uintptr_t)in, bytes, true};
    rnic_exchange_flush(f->adapter, f);
    return rnic_function_dma(f, &access);
}

static bool publish_word(void *context, unsigned fn, uint64_t iova, const uint8_t word[4])
{
    return write_memory(context, fn, iova, word, 4);
}

static bool program_is_gone(void *context, unsigned fn)
{
    const struct rnic_function *f = function_of(context, fn);
    return f->is_over || f->dma.is_gone;
}

static void interrupt(void *context, unsigned fn, unsigned vector)
{
    struct rnic_function *f = function_of(context, fn);
    if (vector >= RNIC_VECTORS || f->channel.fd < 0) {
        return;
    }
    rnic_exchange_flush(f->adapter, f);
    if (f->protocol->interrupt != NULL) {
        f->is_over = f->protocol->interrupt(f, vector) != 0 || f->is_over;
        f->adapter->has_held_back = true; /* the message, or the end of the connection */
    } else if (f->events[vector] >= 0) {
        vipl_event_signal(f->events[vector]);
    }
}

static void clear_memory(void *context, unsigned fn)
{
    const struct rnic_function *f = function_of(context, fn);
    vipl_shm_clear(f->bar4.base, f->bar4.bytes);
}

static void transmit(void *context, const uint8_t *frame, uint32_t bytes)
{
    struct rnic_adapter *a = context;
    a->is_active = true;
    if (a->wire != NULL) {
        rnic_exchange_flush(a, NULL);
        rnic_adapter_wire_send(a->wire, frame, bytes);
    }
}

static void transaction(void *context, const struct rnic_transaction *c)
{
    struct rnic_adapter *a = context;
    rnic_log_write(&a->log, c);
}

static void record_transaction(void *context, const struct rnic_transaction *c)
{
    struct rnic_adapter *a = context;
    rnic_record_transaction(a->recorder, c);
}

static void record_loaded(void *context, unsigned fn, unsigned bar, uint64_t offset, void *data,
                          uint32_t bytes)
{
    struct rnic_adapter *a = context;
    rnic_record_loaded(a->recorder, fn, bar, offset, data, bytes);
}

static void record_stored(void *context, unsigned fn, unsigned bar, uint64_t offset, const void *data,
                          uint32_t bytes)
{
    struct rnic_adapter *a = context;
    rnic_record_stored(a->recorder, fn, bar, offset, data, bytes);
}

static const struct rnic_card_host host = {.dma_read = read_memory,
                                           .dma_write = write_memory,
                                           .dma_publish = publish_word,
                                           .interrupt = interrupt,
                                           .transmit = transmit,
                                           .is_gone = program_is_gone,
                                           .clear = clear_memory};
static const struct rnic_card_host logging_host = {.dma_read = read_memory,
                                                   .dma_write = write_memory,
                                                   .dma_publish = publish_word,
                                                   .interrupt = interrupt,
                                                   .transmit = transmit,
                                                   .transaction = transaction,
                                                   .is_gone = program_is_gone,
                                                   .clear = clear_memory};
static const struct rnic_card_host recording_host = {.dma_read = read_memory,
                                                     .dma_write = write_memory,
                                                     .dma_publish = publish_word,
                                                     .interrupt = interrupt,
                                                     .transmit = transmit,
                                                     .transaction = record_transaction,
                                                     .is_gone = program_is_gone,
                                                     .clear = clear_memory,
                                                     .loaded = record_loaded,
                                                     .stored = record_stored};

/* --- its life --- */

static void wire_ready(struct rnic_source *source)
{
    struct rnic_adapter *a = VIPL_CONTAINER(source, struct rnic_adapter, wire_source);
    for (unsigned i = 0; i < FRAME_BATCH; i++) {
        uint32_t bytes = rnic_adapter_wire_receive(a->wire, a->frame, sizeof(a->frame));
        if (bytes == 0) {
            break;
        }
        rnic_card_receive(&a->card, a->frame, bytes);
    }
    if (rnic_adapter_wire_is_gone(a->wire)) {
        vipl_pollset_remove(&a->set, rnic_adapter_wire_fd(a->wire));
        rnic_card_link(&a->card, false);
    }
}

/* Whether a function may have raw queue pairs. */
static bool has_raw(const struct rnic_card_config *config)
{
    uint64_t any = 0;
    for (size_t i = 0; i < sizeof(config->raw) / sizeof(config->raw[0]); i++) {
        any |= config->raw[i];
    }
    return any != 0;
}

/* An interface's own address and frames are the card's, unless others were chosen. Without an
 * interface its address is made. */
static int open_wire(struct rnic_adapter *a, const struct rnic_adapter_config *config)
{
    struct rnic_adapter_wire_address address;
    int error = rnic_adapter_wire_open(config->wire == NULL ? "switch" : config->wire, has_raw(&a->config),
                                       &a->wire, &address);
    if (error != 0) {
        return error;
    }
    if (address.has_mac && !config->has_mac) {
        memcpy(a->config.mac, address.mac, sizeof(a->config.mac));
    } else if (!config->has_mac) {
        rnic_mac_choose(config->socket != NULL   ? config->socket
                        : config->folder != NULL ? config->folder
                                                 : config->bus,
                        a->config.mac);
    }
    if (address.mtu != 0 && (!config->has_mtu || address.mtu < a->config.mtu)) {
        a->config.mtu = address.mtu < RNIC_MIN_MTU    ? RNIC_MIN_MTU
                        : address.mtu < a->config.mtu ? address.mtu
                                                      : a->config.mtu;
    }
    a->wire_source.ready = wire_ready;
    return a->wire == NULL ? 0 : vipl_pollset_add(&a->set, rnic_adapter_wire_fd(a->wire), &a->wire_source);
}

static int power_up(struct rnic_adapter *a, bool records)
{
    const struct rnic_card_host *callbacks = a->log.file == NULL ? &host : &logging_host;
    void *area = vipl_reserve(rnic_card_bytes(&a->config));
    if (records && a->log.file != NULL) {
        a->recorder = vipl_alloc(sizeof(*a->recorder));
        callbacks = &recording_host;
    }
    if (area == NULL || (callbacks == &recording_host && a->recorder == NULL)) {
        vipl_unreserve(area, rnic_card_bytes(&a->config));
        return ENOMEM;
    }
    if (a->recorder != NULL) {
        rnic_record_init(a->recorder, &a->log, &a->config);
    }
    rnic_card_init(&a->card, area, &a->config, callbacks, a);
    return 0;
}

static int set_faults(struct rnic_adapter *a, const struct rnic_adapter_config *config, char *error,
                      size_t size)
{
    bool good = (config->impair == NULL || rnic_card_impair(&a->card, config->impair, error, size)) &&
                (config->faults == NULL || rnic_card_faults(&a->card, config->faults, error, size));
    return good ? 0 : EINVAL;
}

static int make_functions(struct rnic_adapter *a, bool fixed)
{
    unsigned count = a->config.functions;
    a->functions = vipl_alloc(count * sizeof(*a->functions));
    a->fixed = fixed ? vipl_alloc(count * sizeof(*a->fixed)) : NULL;
    if (a->functions == NULL || (fixed && a->fixed == NULL)) {
        return ENOMEM;
    }
    for (unsigned i = 0; i < count; i++) {
        rnic_function_init(&a->functions[i], a, i);
        if (fixed) {
            rnic_listener_init(&a->fixed[i], a, &rnic_vfio_user_protocol, &a->functions[i]);
        }
    }
    return 0;
}

/* Opens the sockets for programs and for the statistics. */
static int open_pool(struct rnic_adapter *a, const char *socket)
{
    char path[RNIC_MAX_PATH];
    int error = rnic_listener_open(&a->pool, socket);
    error = error == 0 ? rnic_stats_path(socket, path) : error;
    return error == 0 ? rnic_listener_open(&a->stats, path) : error;
}

/* `what`: the one that failed. */
static int open_sockets(struct rnic_adapter *a, const struct rnic_adapter_config *config, char *what,
                        size_t size)
{
    snprintf(what, size, "%s", config->socket == NULL ? "" : config->socket);
    int error = config->socket == NULL ? 0 : open_pool(a, config->socket);
    for (unsigned i = 0; error == 0 && a->fixed != NULL && i < a->config.functions; i++) {
        char path[RNIC_MAX_PATH];
        int length = snprintf(path, sizeof(path), "%s/fn-%u.sock", config->folder, i);
        snprintf(what, size, "%s/fn-%u.sock", config->folder, i);
        error = length < (int)sizeof(path) ? rnic_listener_open(&a->fixed[i], path) : ENAMETOOLONG;
    }
    if (error == 0 && config->bus != NULL) {
        snprintf(what, size, "%s", config->bus);
        error = rnic_listener_open(&a->bus, config->bus);
    }
    return error == EADDRINUSE ? EALREADY : error; /* a port can be in use too, and is no adapter */
}

static void end_ready(struct rnic_source *source)
{
    VIPL_CONTAINER(source, struct rnic_adapter, end_source)->is_ended = true;
}

static int open_set(struct rnic_adapter *a)
{
    a->end_source.ready = end_ready;
    int error = vipl_pollset_open(&a->set);
    error = error == 0 ? vipl_waker_open(&a->end) : error;
    return error == 0 ? vipl_pollset_add(&a->set, a->end.fd, &a->end_source) : error;
}

/* One thing after the other; `error`: what it was that failed. */
static int set_up(struct rnic_adapter *a, const struct rnic_adapter_config *config, char *error, size_t size)
{
    snprintf(error, size, "the adapter");
    int result = open_set(a);
    result = result == 0 ? make_functions(a, config->folder != NULL) : result;
    if (result == 0) { /* first of all: the process that has the path is the adapter */
        result = open_sockets(a, config, error, size);
    }
    if (result == 0) {
        snprintf(error, size, "--wire %s", config->wire == NULL ? "switch" : config->wire);
        result = open_wire(a, config);
    }
    if (result == 0 && config->log != NULL) {
        snprintf(error, size, "--log %s", config->log);
        result = rnic_log_open(&a->log, config->log);
    }
    if (result == 0) {
        snprintf(error, size, "the card's memory");
        result = power_up(a, config->records);
    }
    return result == 0 ? set_faults(a, config, error, size) : result;
}

int rnic_adapter_create(const struct rnic_adapter_config *config, struct rnic_adapter **out, char *error,
                        size_t size)
{
    struct rnic_adapter *a = vipl_zalloc(sizeof(*a));
    if (a == NULL) {
        snprintf(error, size, "the adapter");
        return ENOMEM;
    }
    a->config = config->card;
    a->lingers = config->lingers;
    a->spin_ns = config->spin_ns;
    a->set.fd = a->end.fd = -1;
    a->end.generation = vipl_fork_generation();
    a->used_at = vipl_now_ns();
    rnic_clock_init(&a->clock, a->used_at);
    rnic_listener_init(&a->pool, a, &rnic_vfio_user_protocol, NULL);
    rnic_listener_init(&a->bus, a, &rnic_bus_protocol, NULL);
    rnic_stats_init(&a->stats, a);
    int result = set_up(a, config, error, size);
    if (result != 0) {
        rnic_adapter_destroy(a);
        return result;
    }
    *out = a;
    return 0;
}

void rnic_adapter_destroy(struct rnic_adapter *adapter)
{
    rnic_listener_close(&adapter->stats);
    rnic_listener_close(&adapter->pool);
    rnic_listener_close(&adapter->bus);
    for (unsigned i = 0; adapter->functions != NULL && i < adapter->config.functions; i++) {
        if (adapter->fixed != NULL) {
            rnic_listener_close(&adapter->fixed[i]);
        }
        rnic_function_detach(&adapter->functions[i]);
    }
    vipl_pollset_close(&adapter->set);
    vipl_waker_close(&adapter->end);
    rnic_adapter_wire_close(adapter->wire);
    if (adapter->recorder != NULL) {
        rnic_record_fini(adapter->recorder);
        vipl_free(adapter->recorder);
    }
    rnic_log_close(&adapter->log);
    vipl_unreserve(adapter->card.area, rnic_card_bytes(&adapter->config));
    vipl_free(adapter->fixed);
    vipl_free(adapter->functions);
    vipl_free(adapter);
}

void rnic_adapter_user_gone(struct rnic_adapter *adapter)
{
    adapter->users--;
    adapter->used_at = vipl_now_ns();
}

void rnic_adapter_end(struct rnic_adapter *adapter)
{
    vipl_waker_signal(&adapter->end);
}

/* --- its turns --- */

static bool serve_sources(struct rnic_adapter *a)
{
    struct vipl_ready ready[READY_BATCH];
    unsigned count = vipl_pollset_ready(&a->set, ready, READY_BATCH);
    for (unsigned i = 0; i < count; i++) {
        struct rnic_source *source = ready[i].tag;
        source->ready(source);
    }
    return count > 0;
}

/* Connections that could not be accepted are tried again, now and then. */
static void listen_again(struct rnic_adapter *a)
{
    if (!a->is_deaf || a->now < a->deaf_at + AGAIN_NS) {
        return;
    }
    a->is_deaf = false;
    rnic_listener_resume(&a->pool);
    rnic_listener_resume(&a->bus);
    rnic_listener_resume(&a->stats);
    for (unsigned i = 0; a->fixed != NULL && i < a->config.functions; i++) {
        rnic_listener_resume(&a->fixed[i]);
    }
}

static void resume_functions(struct rnic_adapter *a)
{
    while (a->has_held_back) {
        a->has_held_back = false;
        for (unsigned i = 0; i < a->config.functions; i++) {
            rnic_function_resume(&a->functions[i]);
        }
    }
}

/* The drivers of functions that a fault has removed or reset are told; but not QEMU, to which the
 * end of a socket is its own end. */
static void hang_up_if_lost(struct rnic_adapter *a)
{
    if (a->fixed != NULL || !rnic_card_has_lost_any(&a->card)) {
        return;
    }
    for (unsigned i = 0; i < a->config.functions; i++) {
        if (rnic_card_has_lost(&a->card, i)) {
            rnic_function_detach(&a->functions[i]);
        }
    }
}

void rnic_adapter_turn(struct rnic_adapter *adapter)
{
    adapter->is_active = serve_sources(adapter) || adapter->is_active;
    resume_functions(adapter);
    adapter->now = vipl_now_ns();
    listen_again(adapter);
    rnic_card_advance(&adapter->card, rnic_clock_look(&adapter->clock, adapter->now));
    resume_functions(adapter);
    hang_up_if_lost(adapter);
}

static uint64_t card_deadline(const struct rnic_adapter *a)
{
    return rnic_clock_system(&a->clock, rnic_card_deadline(&a->card));
}

/* Returns when the adapter has to run again without being woken. */
static uint64_t next_time(const struct rnic_adapter *a)
{
    uint64_t next = card_deadline(a);
    uint64_t end = a->lingers && a->users == 0 ? a->used_at + LINGER_NS : UINT64_MAX;
    uint64_t again = a->is_deaf ? a->deaf_at + AGAIN_NS : UINT64_MAX;
    end = again < end ? again : end;
    return next < end ? next : end;
}

static void sleep_until(struct rnic_adapter *a, uint64_t time)
{
    uint64_t now = vipl_now_ns();
    rnic_clock_sleep(&a->clock, time);
    vipl_pollset_wait(&a->set, time == UINT64_MAX ? UINT64_MAX : time > now ? time - now : 0);
}

void rnic_adapter_run(struct rnic_adapter *adapter)
{
    uint64_t active_at = 0;
    while (!adapter->is_ended) {
        adapter->is_active = false;
        rnic_adapter_turn(adapter);
        bool is_due = card_deadline(adapter) <= adapter->now;
        active_at = adapter->is_active || is_due ? adapter->now : active_at;
        if (adapter->now - active_at >= adapter->spin_ns && !is_due && rnic_card_sleep(&adapter->card)) {
            if (adapter->log.file != NULL) {
                rnic_log_flush(&adapter->log);
            }
            sleep_until(adapter, next_time(adapter));
            rnic_card_wake(&adapter->card);
        }
        adapter->is_ended |= adapter->lingers && adapter->users == 0 && adapter->now >= adapter->used_at &&
                             adapter->now - adapter->used_at >= LINGER_NS;
    }
}
