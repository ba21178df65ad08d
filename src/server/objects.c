/* SPDX-License-Identifier: MIT */
/* Tables of the server's objects by kind, and of the clients that hold them. */
#include "server/objects.h"

#include <string.h>

#include "base/lock_rank.h"
#include "os/os.h"
#include "os/os_atomic.h"

enum { FIRST_SLOTS = 64, WORD = 32 };

struct table {
    struct vipl_server_object **slots; /* NULL: the slot is free */
    uint32_t count;
    uint32_t next; /* where the search for a free slot goes on, so that slots are used again late */
};

static struct {
    struct vipl_mutex lock; /* rank SHARE; guards all below */
    struct table tables[VIPL_SHARE_KINDS];
    uint32_t generation;
    struct vipl_arena *arena; /* constant */
} objects;

void vipl_server_objects_init(struct vipl_arena *arena)
{
    objects.arena = arena;
    vipl_mutex_init(&objects.lock, VIPL_RANK_SHARE);
    /* if this fails it is zero, and handles are easier to guess */
    vipl_entropy(&objects.generation, sizeof(objects.generation));
}

static bool grow_table(struct table *table, uint32_t most)
{
    uint32_t count = table->count == 0 ? FIRST_SLOTS : table->count * 2;
    count = count < most ? count : most;
    if (count <= table->count) {
        return false;
    }
    struct vipl_server_object **slots = vipl_zalloc(count * sizeof(struct vipl_server_object *));
    if (slots == NULL) {
        return false;
    }
    if (table->slots != NULL) {
        memcpy(slots, table->slots, table->count * sizeof(struct vipl_server_object *));
    }
    vipl_free(table->slots);
    table->slots = slots;
    table->next = table->count;
    table->count = count;
    return true;
}

static bool find_free(struct table *table, uint32_t most, uint32_t *slot)
{
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < table->count; i++) {
            *slot = (table->next + i) % table->count;
            if (table->slots[*slot] == NULL) {
                table->next = (*slot + 1) % table->count;
                return true;
            }
        }
        if (!grow_table(table, most)) {
            return false;
        }
    }
    return false;
}

struct vipl_server_object *vipl_server_object_new(uint32_t kind, uint32_t most, void *nic)
{
    struct vipl_server_object *object = vipl_zalloc(sizeof(*object));
    uint32_t slot;
    if (object == NULL) {
        return NULL;
    }
    vipl_mutex_lock(&objects.lock);
    bool found = find_free(&objects.tables[kind], most, &slot);
    if (found) {
        uintptr_t stamp = (uintptr_t)++objects.generation << VIPL_KIND_BITS | VIPL_KIND_SHARED | kind;
        object->nic = nic;
        object->handle = (void *)(stamp << VIPL_SLOT_BITS | slot);
        objects.tables[kind].slots[slot] = object;
    }
    vipl_mutex_unlock(&objects.lock);
    if (!found) {
        vipl_free(object);
        return NULL;
    }
    return object;
}

static bool holds(const struct vipl_server_object *object, unsigned client)
{
    return (object->clients[client / WORD] >> client % WORD & 1) != 0;
}

static void set_held(struct vipl_server_object *object, unsigned client, bool held)
{
    uint32_t bit = UINT32_C(1) << client % WORD;
    uint32_t *word = &object->clients[client / WORD];
    *word = held ? *word | bit : *word & ~bit;
}

static uint32_t *holding_words(struct vipl_holding *holding, enum vipl_kind kind)
{
    switch (kind) {
    case VIPL_KIND_VI:
        return holding->vis;
    case VIPL_KIND_CQ:
        return holding->cqs;
    case VIPL_KIND_NIC:
        return holding->nics;
    default:
        return NULL; /* objects that only calls name, for which the server looks itself */
    }
}

/* Tells the client through the arena whether it holds an object. The server itself never relies
 * on the arena. */
static void publish_holding(const struct vipl_server_object *object, unsigned client, bool held)
{
    uint32_t slot = vipl_handle_slot(object->handle);
    uint32_t *words = holding_words(&objects.arena->holdings[client], vipl_handle_kind(object->handle));
    uint32_t bit = UINT32_C(1) << slot % WORD;
    if (words != NULL && held) {
        /* pairs with the client's load, as the next one does */
        vipl_fetch_or(&words[slot / WORD], bit);
    } else if (words != NULL) {
        vipl_fetch_and(&words[slot / WORD], ~bit);
    }
}

static bool is_held(const struct vipl_server_object *object)
{
    uint32_t any = 0;
    for (unsigned i = 0; i < VIPL_SHARE_CLIENTS / WORD; i++) {
        any |= object->clients[i];
    }
    return any != 0;
}

void vipl_server_object_enter(struct vipl_server_object *object, unsigned client)
{
    vipl_mutex_lock(&objects.lock);
    object->kind = (uint32_t)vipl_handle_kind(object->handle);
    set_held(object, client, true);
    if (object->kind == VIPL_KIND_NIC) {
        vipl_store_ptr(&objects.arena->nics[vipl_handle_slot(object->handle)], object->handle);
    }
    publish_holding(object, client, true);
    vipl_mutex_unlock(&objects.lock);
}

/* Frees the slot, if nothing uses the object any more. Returns true if so: the caller then frees
 * the object's memory. */
static bool leave_slot_locked(const struct vipl_server_object *object)
{
    bool over = object->ended && vipl_load_relaxed(&object->users) == 0;
    if (over) {
        objects.tables[vipl_handle_kind(object->handle)].slots[vipl_handle_slot(object->handle)] = NULL;
    }
    return over;
}

static void free_memory(struct vipl_server_object *object)
{
    vipl_free(object->queues);
    vipl_free(object->cq);
    vipl_free(object);
}

void vipl_server_object_free(struct vipl_server_object *object)
{
    vipl_mutex_lock(&objects.lock);
    publish_holding(object, object->last, false);
    for (unsigned client = 0; is_held(object) && client < VIPL_SHARE_CLIENTS; client++) {
        publish_holding(object, client, false);
        set_held(object, client, false);
    }
    object->ended = true;
    bool over = leave_slot_locked(object);
    vipl_mutex_unlock(&objects.lock);
    if (over) {
        free_memory(object);
    }
}

/* An entered object, even if it is ending, or NULL. */
static struct vipl_server_object *object_at_locked(uint32_t kind, const void *handle)
{
    uint32_t slot = vipl_handle_slot(handle);
    struct vipl_server_object *object =
        slot < objects.tables[kind].count ? objects.tables[kind].slots[slot] : NULL;
    return object != NULL && object->handle == handle && object->kind == kind ? object : NULL;
}

static struct vipl_server_object *find_object_locked(uint32_t kind, const void *handle)
{
    struct vipl_server_object *object = object_at_locked(kind, handle);
    return object != NULL && !object->ending ? object : NULL;
}

static struct vipl_server_object *find_held_locked(uint32_t kind, const void *handle, unsigned client)
{
    struct vipl_server_object *object = handle == NULL ? NULL : find_object_locked(kind, handle);
    return object != NULL && holds(object, client) ? object : NULL;
}

void *vipl_server_real(uint32_t kind, const void *handle)
{
    vipl_mutex_lock(&objects.lock);
    struct vipl_server_object *object = find_object_locked(kind, handle);
    void *real = object == NULL ? NULL : object->real;
    vipl_mutex_unlock(&objects.lock);
    return real;
}

bool vipl_server_held(uint32_t kind, const void *handle, unsigned client, void **real)
{
    vipl_mutex_lock(&objects.lock);
    const struct vipl_server_object *object = find_held_locked(kind, handle, client);
    *real = object == NULL ? NULL : object->real;
    vipl_mutex_unlock(&objects.lock);
    return object != NULL;
}

void *vipl_server_handle_of_nic(uint32_t kind, const void *handle)
{
    vipl_mutex_lock(&objects.lock);
    struct vipl_server_object *object = find_object_locked(kind, handle);
    void *nic = object == NULL ? NULL : object->nic;
    vipl_mutex_unlock(&objects.lock);
    return nic;
}

/* The handle of the entered object of a kind for which `is` returns true, or NULL. */
static void *search_kind(uint32_t kind, bool (*is)(const struct vipl_server_object *, const void *),
                         const void *arg)
{
    void *found = NULL;
    vipl_mutex_lock(&objects.lock);
    for (uint32_t i = 0; found == NULL && i < objects.tables[kind].count; i++) {
        struct vipl_server_object *object = objects.tables[kind].slots[i];
        found =
            object != NULL && object->kind != 0 && !object->ending && is(object, arg) ? object->handle : NULL;
    }
    vipl_mutex_unlock(&objects.lock);
    return found;
}

struct region_key {
    const void *nic;
    const void *address;
    VIP_MEM_HANDLE memory;
};

static bool is_region(const struct vipl_server_object *object, const void *arg)
{
    const struct region_key *key = arg;
    return object->memory == key->memory && object->address == key->address && object->nic == key->nic;
}

void *vipl_server_region(const void *nic, const void *address, VIP_MEM_HANDLE memory)
{
    struct region_key key = {nic, address, memory};
    return search_kind(VIPL_KIND_REGION, is_region, &key);
}

static bool is_at(const struct vipl_server_object *object, const void *address)
{
    return object->address == address;
}

void *vipl_server_block(const void *address)
{
    return search_kind(VIPL_KIND_BLOCK, is_at, address);
}

static bool is_real(const struct vipl_server_object *object, const void *real)
{
    return object->real == real;
}

void *vipl_server_handle_of(uint32_t kind, const void *real)
{
    return real == NULL ? NULL : search_kind(kind, is_real, real);
}

enum vipl_server_dropped vipl_server_drop(uint32_t kind, const void *handle, unsigned client,
                                          struct vipl_server_object **out)
{
    enum vipl_server_dropped dropped = VIPL_SERVER_NOT_HELD;
    vipl_mutex_lock(&objects.lock);
    struct vipl_server_object *object = find_object_locked(kind, handle);
    if (object != NULL && holds(object, client)) {
        set_held(object, client, false);
        object->ending = !is_held(object);
        object->last = client;
        /* otherwise this is published when the object has ended, if it can be ended */
        if (!object->ending) {
            publish_holding(object, client, false);
        }
        dropped = object->ending ? VIPL_SERVER_WAS_LAST : VIPL_SERVER_DROPPED;
        *out = object;
    }
    vipl_mutex_unlock(&objects.lock);
    return dropped;
}

void vipl_server_give_back(struct vipl_server_object *object, unsigned client)
{
    vipl_mutex_lock(&objects.lock);
    object->ending = false;
    set_held(object, client, true);
    vipl_mutex_unlock(&objects.lock);
}

/* An object that `client` is about to end. If it cannot be ended the client holds it still, and so
 * does the client's child. */
static bool is_about_to_end(const struct vipl_server_object *object, unsigned client)
{
    return object->ending && !object->ended && object->last == client;
}

void vipl_server_inherit(unsigned parent, unsigned child)
{
    vipl_mutex_lock(&objects.lock);
    for (uint32_t kind = 0; kind < VIPL_SHARE_KINDS; kind++) {
        for (uint32_t i = 0; i < objects.tables[kind].count; i++) {
            struct vipl_server_object *object = objects.tables[kind].slots[i];
            if (object != NULL && object->kind != 0 &&
                (holds(object, parent) || is_about_to_end(object, parent))) {
                set_held(object, child, true);
                publish_holding(object, child, true);
            }
        }
    }
    vipl_mutex_unlock(&objects.lock);
}

/* Leaves an object to its other clients. One that another client is about to end may be given back
 * to that client. */
static void leave_to_others_locked(struct vipl_server_object *object, unsigned client)
{
    set_held(object, client, false);
    if (is_held(object) || object->ending) {
        publish_holding(object, client, false);
    } else {
        set_held(object, client, true);
    }
}

void vipl_server_leave_to_others(unsigned client)
{
    vipl_mutex_lock(&objects.lock);
    for (uint32_t kind = 0; kind < VIPL_SHARE_KINDS; kind++) {
        for (uint32_t i = 0; i < objects.tables[kind].count; i++) {
            struct vipl_server_object *object = objects.tables[kind].slots[i];
            if (object != NULL && object->kind != 0 && holds(object, client)) {
                leave_to_others_locked(object, client);
            }
        }
    }
    vipl_mutex_unlock(&objects.lock);
}

struct vipl_shared_cq *vipl_server_use_cq(const void *handle, const void *nic)
{
    struct vipl_shared_cq *cq = NULL;
    vipl_mutex_lock(&objects.lock);
    struct vipl_server_object *object = find_object_locked(VIPL_KIND_CQ, handle);
    if (object != NULL && object->nic == nic) {
        vipl_fetch_add(&object->users, 1); /* pairs with the load of the thread that would end it */
        cq = object->cq;
    }
    vipl_mutex_unlock(&objects.lock);
    return cq;
}

/* Another thread may be about to end the completion queue, and may fail. Or the completion queue
 * has no client any more, and this was its last use. */
void vipl_server_leave_cq(const void *handle)
{
    vipl_mutex_lock(&objects.lock);
    struct vipl_server_object *object = handle == NULL ? NULL : object_at_locked(VIPL_KIND_CQ, handle);
    if (object != NULL) {
        vipl_fetch_add(&object->users, UINT32_MAX);
    }
    bool over = object != NULL && leave_slot_locked(object);
    vipl_mutex_unlock(&objects.lock);
    if (over) {
        free_memory(object);
    }
}

bool vipl_server_cq_hand_on(unsigned client, const void *handle, uint32_t code)
{
    vipl_mutex_lock(&objects.lock);
    struct vipl_server_object *object = find_held_locked(VIPL_KIND_CQ, handle, client);
    if (object != NULL) {
        vipl_shared_cq_hand_on(object->cq, code);
    }
    vipl_mutex_unlock(&objects.lock);
    return object != NULL;
}

VIP_RETURN vipl_server_object_notify(uint32_t kind, const void *handle, bool recv,
                                     struct vipl_server_notify *notify)
{
    VIP_RETURN rc = VIP_INVALID_PARAMETER;
    vipl_mutex_lock(&objects.lock);
    struct vipl_server_object *object = find_held_locked(kind, handle, notify->client);
    if (object != NULL) {
        notify->event.nic = object->nic;
        rc = VIP_SUCCESS;
        if (kind == VIPL_KIND_CQ) {
            vipl_shared_cq_notify(object->cq, notify);
        } else if (!vipl_shared_queue_notify(&object->queues[recv ? 1 : 0], notify)) {
            rc = VIP_ERROR_RESOURCE;
        }
    }
    vipl_mutex_unlock(&objects.lock);
    return rc;
}

void vipl_server_object_ready(unsigned client, const void *handle, bool recv, int fds[2])
{
    uint32_t kind = (uint32_t)vipl_handle_kind(handle);
    vipl_mutex_lock(&objects.lock);
    struct vipl_server_object *object = find_held_locked(kind, handle, client);
    if (object != NULL && kind == VIPL_KIND_CQ) {
        vipl_shared_ready_share(&object->cq->ready_fd, &object->cq->ring->signalled, fds);
    } else if (object != NULL && kind == VIPL_KIND_VI) {
        struct vipl_shared_queue *shared = &object->queues[recv ? 1 : 0];
        vipl_shared_ready_share(&shared->ready_fd, &shared->ring->signalled, fds);
    }
    vipl_mutex_unlock(&objects.lock);
}

void *vipl_server_next_held(uint32_t kind, const void *nic, unsigned client)
{
    void *found = NULL;
    vipl_mutex_lock(&objects.lock);
    for (uint32_t i = 0; found == NULL && i < objects.tables[kind].count; i++) {
        struct vipl_server_object *object = objects.tables[kind].slots[i];
        if (object != NULL && object->kind != 0 && !object->ending && (nic == NULL || object->nic == nic) &&
            holds(object, client)) {
            found = object->handle;
        }
    }
    vipl_mutex_unlock(&objects.lock);
    return found;
}

void vipl_server_for_each(uint32_t kind, void (*call)(struct vipl_server_object *object))
{
    vipl_mutex_lock(&objects.lock);
    for (uint32_t i = 0; i < objects.tables[kind].count; i++) {
        struct vipl_server_object *object = objects.tables[kind].slots[i];
        if (object != NULL && object->kind != 0 && !object->ending) {
            call(object);
        }
    }
    vipl_mutex_unlock(&objects.lock);
}
