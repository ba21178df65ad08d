/* SPDX-License-Identifier: MIT */
/* The device "rnic": the cards that this process has open, a NIC handle from its opening to its
 * closing, and the operations table. */
#include "backends/rnic/rnic.h"

#include <errno.h>
#include <stdio.h>

#include "backends/rnic/conn.h"
#include "backends/rnic/connect.h"
#include "backends/rnic/data.h"
#include "backends/rnic/listen.h"
#include "backends/rnic/vi.h"
#include "base/config.h"
#include "base/lock_rank.h"
#include "base/log.h"

enum { FIRST_COMPLETIONS_LOG2 = 8 };
static const char IN_PROCESS[] = "inproc"; /* the device whose card is in this process */

struct vipl_rnic_registry vipl_rnic_registry = {
    .lock = VIPL_MUTEX_INIT(VIPL_RANK_BACKEND),
    .devices = {&vipl_rnic_registry.devices, &vipl_rnic_registry.devices},
};

/* What lies in memory stays there: its locks may be held by threads that the child does not
 * have. */
static void rnic_abandon(void)
{
    for (struct vipl_list *l = vipl_rnic_registry.devices.next; l != &vipl_rnic_registry.devices;
         l = l->next) {
        vipl_rnic_abandon(VIPL_CONTAINER(l, struct rnic_device, link)->rnic);
    }
    vipl_mutex_init(&vipl_rnic_registry.lock, VIPL_RANK_BACKEND);
    vipl_list_init(&vipl_rnic_registry.devices);
    vipl_rnic_vi_abandon();
}

/* --- cards: under the registry's lock --- */

static int device_open(const char *name, struct rnic_device **out)
{
    struct rnic_device *device = vipl_zalloc(sizeof(*device));
    if (device == NULL) {
        return ENOMEM;
    }
    int error = vipl_entropy(&device->last_serial, sizeof(device->last_serial));
    error = error == 0 ? vipl_rnic_open(name, &device->rnic) : error;
    if (error != 0) {
        vipl_free(device);
        return error;
    }
    vipl_rnic_set_windows(device->rnic, vipl_config_number("VIPL_RNIC_BOTF"));
    snprintf(device->name, sizeof(device->name), "%s", name);
    vipl_list_init(&device->nics);
    vipl_list_init(&device->listeners);
    vipl_list_init(&device->incomings);
    vipl_list_init(&device->ops);
    vipl_list_init(&device->accepting);
    vipl_list_init(&device->pending_disconnects);
    vipl_list_append(&vipl_rnic_registry.devices, &device->link);
    *out = device;
    return 0;
}

static struct rnic_device *device_find(const char *name)
{
    for (struct vipl_list *l = vipl_rnic_registry.devices.next; l != &vipl_rnic_registry.devices;
         l = l->next) {
        struct rnic_device *device = VIPL_CONTAINER(l, struct rnic_device, link);
        if (strcmp(device->name, name) == 0 && !vipl_rnic_probe(device->rnic)) {
            return device;
        }
    }
    return NULL;
}

static int device_get(const char *name, struct rnic_device **out)
{
    *out = device_find(name);
    int error = *out != NULL ? 0 : device_open(name, out);
    if (error == 0) {
        (*out)->nic_count++;
    }
    return error;
}

static void device_put(struct rnic_device *device)
{
    if (--device->nic_count > 0) {
        return;
    }
    vipl_list_remove(&device->link);
    vipl_rnic_listen_tear_down(device);
    vipl_rnic_conn_drop_disconnects(device);
    vipl_rnic_close(device->rnic);
    for (unsigned i = 0; i < sizeof(device->vis) / sizeof(device->vis[0]); i++) {
        vipl_free(device->vis[i]);
    }
    vipl_free(device);
}

/* --- NIC handles --- */

/* The interrupt vector that the fewest NIC handles have. The registry's lock is held. */
static void choose_vector(struct rnic_nic *nic)
{
    unsigned users[RNIC_VECTORS] = {0};
    nic->vector = 1;
    for (struct vipl_list *l = nic->device->nics.next; l != &nic->device->nics; l = l->next) {
        users[VIPL_CONTAINER(l, struct rnic_nic, link)->vector]++;
    }
    for (unsigned i = 2; i < RNIC_VECTORS; i++) {
        nic->vector = users[i] < users[nic->vector] ? i : nic->vector;
    }
    for (struct vipl_list *l = nic->device->nics.next; l != &nic->device->nics; l = l->next) {
        struct rnic_nic *other = VIPL_CONTAINER(l, struct rnic_nic, link);
        if (other->vector == nic->vector) {
            vipl_store_relaxed(&other->shares_vector, 1);
            vipl_store_relaxed(&nic->shares_vector, 1);
        }
    }
}

static void nic_init(struct rnic_nic *nic, struct vipl_nic *core)
{
    nic->core = core;
    vipl_list_init(&nic->link);
    vipl_mutex_init(&nic->rx, VIPL_RANK_BACKEND_RX);
    vipl_mutex_init(&nic->wanting_lock, VIPL_RANK_BACKEND_TX);
    vipl_mutex_init(&nic->regions_lock, VIPL_RANK_BACKEND_MEM);
    vipl_list_init(&nic->vis);
    vipl_list_init(&nic->wanting);
    for (unsigned i = 0; i < RNIC_REGION_BUCKETS; i++) {
        vipl_list_init(&nic->regions[i]);
    }
}

/* Its objects on the card. The registry's lock is held. */
static int make_objects(struct rnic_nic *nic)
{
    int error = vipl_rnic_allocate_pd(nic->rnic, &nic->pd);
    if (error != 0) {
        return error;
    }
    choose_vector(nic);
    error = vipl_rnic_create_cq(nic->rnic, FIRST_COMPLETIONS_LOG2, nic->vector, &nic->cq);
    if (error == 0 && !vipl_rnic_loop_open(nic)) {
        error = EMFILE;
        (void)vipl_rnic_destroy_cq(nic->cq);
    }
    if (error != 0) {
        vipl_rnic_free_pd(nic->rnic, &nic->pd);
    }
    return error;
}

static int attach(struct rnic_nic *nic, const char *device)
{
    int error = device_get(device, &nic->device);
    if (error != 0) {
        return error;
    }
    nic->rnic = nic->device->rnic;
    error = make_objects(nic);
    if (error != 0) {
        device_put(nic->device);
        return error;
    }
    vipl_list_append(&nic->device->nics, &nic->link);
    return 0;
}

static void explain_open(const char *device, int error)
{
    if (error == ENODEV && strcmp(device, IN_PROCESS) == 0 && !vipl_rnic_has_model()) {
        vipl_log(VIPL_LOG_REASON,
                 "rnic: this library was built without the model of the card (VIPL_BACKEND_RNIC_MODEL)");
    } else if (error == ENODEV) {
        vipl_log(VIPL_LOG_REASON, "rnic: \"%s\" is no card that can be opened", device);
    } else {
        vipl_log_os(VIPL_LOG_REASON, "rnic: opening the card", error);
    }
}

static VIP_RETURN rnic_open(struct vipl_nic *core, const char *device, struct vipl_be_nic **out)
{
    struct rnic_nic *nic = vipl_zalloc(sizeof(*nic));
    if (nic == NULL || strlen(device) >= RNIC_DEVICE_NAME) {
        vipl_free(nic);
        return VIP_ERROR_RESOURCE;
    }
    nic_init(nic, core);
    vipl_mutex_lock(&vipl_rnic_registry.lock);
    int error = attach(nic, device);
    vipl_mutex_unlock(&vipl_rnic_registry.lock);
    if (error != 0) {
        explain_open(device, error);
        vipl_free(nic);
        return VIP_ERROR_RESOURCE;
    }
    *out = (struct vipl_be_nic *)(void *)nic;
    return VIP_SUCCESS;
}

static void rnic_close(struct vipl_be_nic *be)
{
    struct rnic_nic *nic = rnic_nic_of(be);
    vipl_mutex_lock(&vipl_rnic_registry.lock);
    vipl_list_remove(&nic->link);
    vipl_rnic_loop_close(nic);
    int error = vipl_rnic_destroy_cq(nic->cq);
    if (error != 0 && error != ENODEV) {
        vipl_log_os(VIPL_LOG_ERROR, "rnic: ending a completion queue", error);
    }
    vipl_rnic_free_pd(nic->rnic, &nic->pd);
    vipl_rnic_free_memory_of(nic->rnic, nic);
    device_put(nic->device);
    vipl_mutex_unlock(&vipl_rnic_registry.lock);
    vipl_free(nic);
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void rnic_limits(struct vipl_be_nic *be, struct vipl_limits *out)
{
    const struct vipl_rnic_caps *caps = vipl_rnic_query(rnic_nic_of(be)->rnic);
    const struct rnic_pci *access = vipl_rnic_access(rnic_nic_of(be)->rnic);
    *out = (struct vipl_limits){
        .max_register_bytes = UINT64_MAX / 2,
        .max_block_bytes = UINTPTR_MAX / 2,
        .max_regions = caps->stags,
        .max_vis = caps->qps,
        .max_descriptors = UINT32_C(1) << caps->work_log2,
        .max_segments = min_u32(caps->segments, VIPL_MAX_SEGMENTS),
        .max_cqs = 65536,
        .max_cq_entries = 1u << 20,
        .max_transfer_size = min_u32(caps->transfer, 4u << 20),
        .native_mtu = caps->mtu,
        .max_ptags = 65536,
        .max_pending_connects = 1024,
        .max_discriminator = VIPL_MAX_DISCRIMINATOR,
        .reliability_levels =
            VIP_SERVICE_UNRELIABLE | VIP_SERVICE_RELIABLE_DELIVERY | VIP_SERVICE_RELIABLE_RECEPTION,
        .rdma_read_levels = VIP_SERVICE_RELIABLE_DELIVERY | VIP_SERVICE_RELIABLE_RECEPTION,
        .hardware_version = caps->version,
        .keeps_pages = access->keeps_pages,
        .pages_stay = access->keeps_pages && access->linear, /* by VFIO, not by mlock() */
    };
}

static void rnic_address(struct vipl_be_nic *be, struct vipl_address *out)
{
    memset(out, 0, sizeof(*out));
    out->host_len = 6;
    memcpy(out->host, vipl_rnic_query(rnic_nic_of(be)->rnic)->mac, 6);
}

static void rnic_list(struct vipl_device_list *to)
{
    char text[256];
    if (vipl_rnic_say_adapter(text, sizeof(text))) {
        vipl_device_add(to, "", text);
    }
    if (vipl_rnic_has_model()) {
        vipl_device_add(to, IN_PROCESS,
                        "an emulated RDMA card in this process, which only its threads reach");
    }
}

const struct vipl_backend vipl_rnic_ops = {
    .name = "rnic",
    .list = rnic_list,
    .chooses_handles = true,
    .open = rnic_open,
    .close = rnic_close,
    .limits = rnic_limits,
    .address = rnic_address,
    .describe = vipl_rnic_describe,
    .resolve = vipl_rnic_resolve,
    .reverse = vipl_rnic_reverse,
    .abandon = rnic_abandon,
    .region_add = vipl_rnic_region_add,
    .region_remove = vipl_rnic_region_remove,
    .region_change = vipl_rnic_region_change,
    .regions_end = vipl_rnic_regions_end,
    .memory_alloc = vipl_rnic_memory_alloc,
    .memory_free = vipl_rnic_memory_free,
    .vi_create = vipl_rnic_vi_create,
    .vi_destroy = vipl_rnic_vi_destroy,
    .listen = vipl_rnic_listen,
    .unlisten = vipl_rnic_unlisten,
    .conns_look = vipl_rnic_conns_look,
    .connect = vipl_rnic_connect,
    .connect_cancel = vipl_rnic_connect_cancel,
    .conn_taken = vipl_rnic_conn_taken,
    .conn_accept = vipl_rnic_conn_accept_request,
    .conn_reject = vipl_rnic_conn_reject,
    .revoke = vipl_rnic_vi_revoke,
    .quiesce = vipl_rnic_vi_quiesce,
    .disconnect = vipl_rnic_conn_disconnect,
    .post_send = vipl_rnic_data_send,
    .post_recv = vipl_rnic_data_recv,
    .poll = vipl_rnic_poll,
    .prepare_wait = vipl_rnic_prepare_wait,
    .finish_wait = vipl_rnic_finish_wait,
};
