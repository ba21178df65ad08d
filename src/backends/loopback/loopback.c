/* SPDX-License-Identifier: MIT */
/* The loopback device: settings, limits, names, and the operations table. */
#include "backends/loopback/loopback.h"
#include "backends/loopback/exports.h"
#include "backends/loopback/tx.h"

#include <string.h>

#include "backends/loopback/connect.h"
#include "backends/loopback/inproc.h"
#include "backends/loopback/link.h"
#include "backends/loopback/offers.h"
#include "base/config.h"
#include "base/hostname.h"
#include "base/lock_rank.h"

static const uint8_t host_address[6] = {127, 0, 0, 1, 0, 0}; /* IPv4 and two zero bytes: programs expect 6 */

static enum lo_rendezvous pull_setting(void)
{
    char text[16];
    vipl_config_text("VIPL_LOOPBACK_PULL", text, sizeof(text));
    if (strcmp(text, "on") == 0) {
        return LO_RENDEZVOUS_ON;
    }
    return strcmp(text, "off") == 0 ? LO_RENDEZVOUS_OFF : LO_RENDEZVOUS_AUTO;
}

static VIP_RETURN lo_open(struct vipl_nic *nic, const char *device, struct vipl_be_nic **out)
{
    if (device[0] != '\0') { /* there is one loopback device, without instances */
        return VIP_ERROR_RESOURCE;
    }
    struct vipl_be_nic *be = vipl_zalloc(sizeof(*be));
    if (be == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    be->core = nic;
    vipl_mutex_init(&be->exports_lock, VIPL_RANK_BACKEND_MEM);
    be->exports.fd = -1;
    be->settings_rendezvous = pull_setting();
    be->settings_inline = vipl_config_number("VIPL_LOOPBACK_INLINE", 2048, 0, 16384);
    be->settings_ring = vipl_config_number("VIPL_LOOPBACK_RING", 262144, 65536, 16777216);
    be->address.host_len = sizeof(host_address);
    memcpy(be->address.host, host_address, sizeof(host_address));
    vipl_mutex_lock(&vipl_lo_registry.lock);
    vipl_list_append(&vipl_lo_registry.nics, &be->link);
    vipl_mutex_unlock(&vipl_lo_registry.lock);
    *out = be;
    return VIP_SUCCESS;
}

static void lo_close(struct vipl_be_nic *be)
{
    vipl_mutex_lock(&vipl_lo_registry.lock);
    vipl_list_remove(&be->link);
    vipl_lo_offers_forget(be, NULL);
    vipl_mutex_unlock(&vipl_lo_registry.lock);
    vipl_lo_remote_close(be);
    vipl_shm_release(&be->exports);
    vipl_free(be);
}

static void lo_limits(struct vipl_be_nic *be, struct vipl_limits *out)
{
    (void)be;
    *out = (struct vipl_limits){
        .max_register_bytes = UINT64_MAX / 2,
        .max_block_bytes = UINTPTR_MAX / 2,
        .max_regions = 1u << 20,
        .max_vis = 131072,
        .max_descriptors = 65536,
        .max_segments = VIPL_MAX_SEGMENTS,
        .max_cqs = 65536,
        .max_cq_entries = 1u << 20,
        .max_transfer_size = 4u << 20,
        .native_mtu = 65536,
        .max_ptags = 65536,
        .max_pending_connects = 1024,
        .max_discriminator = VIPL_MAX_DISCRIMINATOR,
        .reliability_levels =
            VIP_SERVICE_UNRELIABLE | VIP_SERVICE_RELIABLE_DELIVERY | VIP_SERVICE_RELIABLE_RECEPTION,
        .rdma_read_levels = VIP_SERVICE_RELIABLE_DELIVERY | VIP_SERVICE_RELIABLE_RECEPTION,
        .hardware_version = 0,
    };
}

static void lo_address(struct vipl_be_nic *be, struct vipl_address *out)
{
    *out = be->address;
}

static VIP_RETURN lo_resolve(struct vipl_be_nic *be, const char *name, uint32_t index,
                             struct vipl_address *out)
{
    if (index > 0 || !vipl_hostname_is_own(name)) {
        return VIP_ERROR_NAMESERVICE;
    }
    *out = be->address;
    return VIP_SUCCESS;
}

static VIP_RETURN lo_reverse(struct vipl_be_nic *be, const struct vipl_address *host, char *name, size_t size)
{
    if (host->host_len != be->address.host_len || memcmp(host->host, be->address.host, host->host_len) != 0 ||
        vipl_host_name(name, size) != 0) {
        return VIP_ERROR_NAMESERVICE;
    }
    return VIP_SUCCESS;
}

static VIP_RETURN lo_vi_create(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    (void)be;
    (void)vi;
    return VIP_SUCCESS; /* an idle VI costs the backend nothing */
}

static void lo_vi_destroy(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    (void)be;
    (void)vi;
}

static enum vipl_posted lo_post_send(struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_send *send)
{
    struct lo_vi *lo = lo_vi_of(vi);
    (void)be;
    if (lo->peer != NULL) {
        return vipl_lo_local_send(vi, lo->peer, send);
    }
    if (lo->session != NULL) {
        return vipl_lo_session_send(vi, lo->session, send);
    }
    return VIPL_POSTED_AGAIN; /* the connection has just ended; the flush follows */
}

const struct vipl_backend vipl_loopback_ops = {
    .name = "loopback",
    .open = lo_open,
    .close = lo_close,
    .limits = lo_limits,
    .address = lo_address,
    .resolve = lo_resolve,
    .reverse = lo_reverse,
    .abandon = vipl_lo_registry_abandon,
    .region_add = vipl_lo_region_add,
    .region_remove = vipl_lo_region_remove,
    .region_change = vipl_lo_region_change,
    .regions_end = vipl_lo_regions_end,
    .vi_create = lo_vi_create,
    .vi_destroy = lo_vi_destroy,
    .listen = vipl_lo_listen,
    .unlisten = vipl_lo_unlisten,
    .conns_look = vipl_lo_conns_look,
    .connect = vipl_lo_connect,
    .connect_cancel = vipl_lo_connect_cancel,
    .conn_taken = vipl_lo_conn_taken,
    .conn_accept = vipl_lo_conn_accept,
    .conn_reject = vipl_lo_conn_reject,
    .revoke = vipl_lo_session_cut,
    .disconnect = vipl_lo_disconnect,
    .post_send = lo_post_send,
    .poll = vipl_lo_remote_poll,
    .prepare_wait = vipl_lo_remote_prepare_wait,
    .finish_wait = vipl_lo_remote_finish_wait,
};
