/* SPDX-License-Identifier: MIT */
/* A function, from the connection of its program to the end of the program. */
#include "adapter/function.h"

#include <errno.h>
#include <string.h>

#include "adapter/adapter.h"

enum { REQUEST_BATCH = 16, VECTOR_BYTES = 16, VECTOR_CONTROL = 12 };

static void close_events(struct rnic_function *f)
{
    for (unsigned i = 0; i < RNIC_VECTORS; i++) {
        vipl_fd_close(f->events[i]);
        f->events[i] = -1;
    }
}

/* True: nothing of it has to wait any more. */
static bool serve_one(struct rnic_function *f)
{
    int error = f->protocol->serve(f, false);
    f->is_blocked = error == EBUSY; /* not here: the card is not waiting */
    f->is_over = f->is_over || (error != 0 && error != EAGAIN);
    rnic_function_resume(f);
    return error == 0 && f->channel.fd >= 0;
}

static void socket_ready(struct rnic_source *source)
{
    struct rnic_function *f = VIPL_CONTAINER(source, struct rnic_function, socket_source);
    for (int i = 0; i < REQUEST_BATCH && f->channel.fd >= 0 && serve_one(f); i++) {
    }
}

static void process_ready(struct rnic_source *source)
{
    struct rnic_function *f = VIPL_CONTAINER(source, struct rnic_function, process_source);
    if (f->process >= 0 &&
        vipl_poll(&f->process, 1, 0, NULL) == 0) { /* else it was another program's, just now */
        rnic_function_detach(f);
    }
}

void rnic_function_init(struct rnic_function *function, struct rnic_adapter *adapter, unsigned number)
{
    memset(function, 0, sizeof(*function));
    function->adapter = adapter;
    function->number = number;
    function->channel.fd = -1;
    function->process = -1;
    function->bar2.fd = -1;
    function->bar4.fd = -1;
    function->socket_source.ready = socket_ready;
    function->process_source.ready = process_ready;
    for (unsigned i = 0; i < RNIC_VECTORS; i++) {
        function->events[i] = -1;
    }
}

static int watch_program(struct rnic_function *f)
{
    uint32_t user;
    int error = vipl_pollset_add(&f->adapter->set, f->channel.fd, &f->socket_source);
    if (vipl_local_peer(f->channel.fd, &f->pid, &user) != 0) {
        f->pid = 0;
    }
    f->process = vipl_unix_peer_process(f->channel.fd);
    if (error == 0 && f->process >= 0) {
        error = vipl_pollset_add(&f->adapter->set, f->process, &f->process_source);
    }
    return error;
}

static void forget_program(struct rnic_function *f)
{
    if (f->channel.fd >= 0) {
        vipl_pollset_remove(&f->adapter->set, f->channel.fd);
    }
    if (f->process >= 0) {
        vipl_pollset_remove(&f->adapter->set, f->process);
        vipl_fd_close(f->process);
    }
    f->adapter->posted = f->adapter->posted == f ? NULL : f->adapter->posted;
    vipl_framer_close(&f->channel);
    vipl_shm_release(&f->bar2);
    vipl_shm_release(&f->bar4);
    vipl_free(f->kept);
    rnic_function_init(f, f->adapter, f->number);
}

int rnic_function_attach(struct rnic_function *function, const struct rnic_protocol *protocol, int fd)
{
    int error = protocol->open(&function->channel, fd);
    function->protocol = protocol;
    function->kept = vipl_alloc(RNIC_MAX_KEPT * sizeof(*function->kept));
    error = error == 0 && function->kept == NULL ? ENOMEM : error;
    error = error == 0 ? vipl_shm_create_sparse(&function->bar2, "rnic-doorbells", RNIC_BAR2_BYTES) : error;
    uint64_t bar4 = rnic_card_bar4_bytes(&function->adapter->config);
    if (error == 0 && bar4 > 0) {
        error = vipl_shm_create_sparse(&function->bar4, "rnic-memory", (size_t)bar4);
    }
    error = error == 0 ? watch_program(function) : error;
    if (error != 0) {
        forget_program(function);
        return error;
    }
    rnic_dma_init(&function->dma);
    rnic_card_attach(&function->adapter->card, function->number, function->bar2.base, function->bar4.base);
    function->adapter->users++;
    return 0;
}

void rnic_function_detach(struct rnic_function *function)
{
    if (function->channel.fd < 0) {
        return;
    }
    rnic_card_detach(&function->adapter->card, function->number);
    rnic_dma_clear(&function->dma);
    close_events(function);
    forget_program(function);
    rnic_adapter_user_gone(function->adapter);
}

void rnic_function_reset(struct rnic_function *function)
{
    rnic_card_detach(&function->adapter->card, function->number);
    vipl_shm_clear(function->bar2.base, function->bar2.bytes);
    rnic_card_attach(&function->adapter->card, function->number, function->bar2.base, function->bar4.base);
    function->vectors_changed = true;
}

/*
 * A program that has events for vectors keeps their table itself, as QEMU does for its guest: that
 * is never stored to here. To the card a vector is masked that has no event. A program that is sent
 * a message for each interrupt stores to the card's table.
 */
static void mask_vectors(struct rnic_function *f)
{
    struct rnic_card *card = &f->adapter->card;
    for (unsigned i = 0; f->protocol->interrupt == NULL && i < RNIC_VECTORS; i++) {
        uint64_t control = RNIC_MSIX_TABLE + i * VECTOR_BYTES + VECTOR_CONTROL;
        uint64_t mask = f->events[i] >= 0 ? 0 : 1;
        if (rnic_card_bar_read(card, f->number, 0, control, 4) != mask) {
            rnic_card_bar_write(card, f->number, 0, control, 4, mask);
        }
    }
}

/* Takes the message again that had to wait, or what was set aside of it. */
static void take_again(struct rnic_function *f)
{
    int error = 0;
    if (f->is_blocked && !f->is_over) {
        error = f->protocol->serve(f, false);
        f->is_blocked = error == EBUSY;
    }
    if (error == 0 && !f->is_over && f->protocol != NULL && f->protocol->resume != NULL) {
        error = f->protocol->resume(f);
    }
    f->is_over = f->is_over || (error != 0 && error != EAGAIN && error != EBUSY);
}

/* While messages are kept, room for them is waited for, and with vfio-user nothing is read. */
static void watch_for_room(struct rnic_function *f)
{
    bool is_behind = f->channel.out_bytes > 0;
    if (f->channel.fd >= 0 && is_behind != f->is_behind) {
        f->is_behind = is_behind;
        (void)vipl_pollset_change(&f->adapter->set, f->channel.fd, &f->socket_source,
                                  !is_behind || f->protocol->reads_while_behind, is_behind);
    }
}

void rnic_function_resume(struct rnic_function *function)
{
    do {
        rnic_stores_make(function);
        if (function->vectors_changed) {
            function->vectors_changed = false;
            mask_vectors(function);
        }
        take_again(function);
    } while (function->kept_count > 0 || function->vectors_changed ||
             (function->is_blocked && !function->is_over));
    if (function->is_over) {
        rnic_function_detach(function);
    }
    watch_for_room(function);
}
