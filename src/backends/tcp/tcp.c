/* SPDX-License-Identifier: MIT */
/* The device "tcp": settings, limits, and the operations table. */
#include "backends/tcp/tcp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/lock_rank.h"
#include "base/log.h"

/* Below the ports that systems hand out by themselves. */
enum { FIRST_PORT = 18514, PORTS = 256 };

static void read_ports(struct tcp_settings *settings)
{
    char text[32];
    unsigned first;
    unsigned last;
    char rest;
    settings->first_port = FIRST_PORT;
    settings->ports = PORTS;
    if (!vipl_config_text("VIPL_TCP_PORTS", text, sizeof(text))) {
        return;
    }
    if (sscanf(text, "%5u-%5u%c", &first, &last, &rest) == 2 && first > 0 && last <= 65535 && last >= first) {
        settings->first_port = first;
        settings->ports = last - first + 1;
    } else {
        vipl_log(VIPL_LOG_ERROR, "VIPL_TCP_PORTS: \"%s\" is not first-last", text);
    }
}

static uint32_t read_crc(void)
{
    char text[8];
    if (!vipl_config_text("VIPL_MPA_CRC", text, sizeof(text)) || strcmp(text, "auto") == 0) {
        return TCP_CRC_AUTO;
    }
    if (strcmp(text, "on") != 0 && strcmp(text, "off") != 0) {
        vipl_log(VIPL_LOG_ERROR, "VIPL_MPA_CRC: \"%s\" is not auto, on or off", text);
        return TCP_CRC_AUTO;
    }
    return strcmp(text, "on") == 0 ? TCP_CRC_ON : TCP_CRC_OFF;
}

static void read_settings(struct tcp_settings *settings)
{
    read_ports(settings);
    settings->crc = read_crc();
    settings->handshake_ms = vipl_config_number("VIPL_TCP_HANDSHAKE_MS", 10000, 10, 600000);
    settings->half_open = vipl_config_number("VIPL_TCP_HALF_OPEN", 256, 1, 65536);
    settings->tuning.idle_ms = vipl_config_number("VIPL_TCP_IDLE_MS", 10000, 1000, 86400000);
    settings->tuning.timeout_ms = vipl_config_number("VIPL_TCP_TIMEOUT_MS", 20000, 1000, 86400000);
    settings->tuning.buffer = vipl_config_number("VIPL_TCP_BUFFER", 0, 0, 1u << 30);
}

static VIP_RETURN tcp_open(struct vipl_nic *nic, const char *device, struct vipl_be_nic **out)
{
    struct vipl_inet inet;
    int error = vipl_tcp_choose_address(device, &inet);
    if (error != 0) {
        vipl_log(VIPL_LOG_ERROR, "tcp: \"%s\" is no interface or address of this host", device);
        return VIP_ERROR_RESOURCE;
    }
    struct vipl_be_nic *be = vipl_zalloc(sizeof(*be));
    uint8_t *scratch = vipl_alloc(TCP_SCRATCH);
    if (be == NULL || scratch == NULL || vipl_tcp_loop_open(be) != 0) {
        vipl_free(scratch);
        vipl_free(be);
        return VIP_ERROR_RESOURCE;
    }
    be->core = nic;
    be->inet = inet;
    be->scratch = scratch;
    vipl_tcp_to_address(&inet, &be->address);
    read_settings(&be->settings);
    vipl_mutex_init(&be->lock, VIPL_RANK_BACKEND_RX);
    vipl_mutex_init(&be->want_lock, VIPL_RANK_BACKEND_TX);
    vipl_list_init(&be->conns);
    vipl_list_init(&be->half_open);
    vipl_list_init(&be->listeners);
    vipl_list_init(&be->calls);
    vipl_list_init(&be->wanting);
    *out = be;
    return VIP_SUCCESS;
}

static void tcp_close(struct vipl_be_nic *be)
{
    vipl_mutex_lock(&be->lock);
    vipl_tcp_calls_close(be);
    vipl_tcp_listeners_close(be);
    while (!vipl_list_empty(&be->conns)) {
        vipl_tcp_conn_close(VIPL_CONTAINER(be->conns.next, struct tcp_conn, link));
    }
    vipl_tcp_loop_close(be);
    vipl_mutex_unlock(&be->lock);
    vipl_free(be->scratch);
    vipl_free(be);
}

static void tcp_limits(struct vipl_be_nic *be, struct vipl_limits *out)
{
    (void)be;
    *out = (struct vipl_limits){
        .max_register_bytes = UINT64_MAX / 2,
        .max_block_bytes = UINTPTR_MAX / 2,
        .max_regions = 1u << 20,
        .max_vis = 65536,
        .max_descriptors = 65536,
        .max_segments = VIPL_MAX_SEGMENTS,
        .max_cqs = 65536,
        .max_cq_entries = 1u << 20,
        .max_transfer_size = TCP_TRANSFER_SIZE,
        .native_mtu = TCP_SEGMENT,
        .max_ptags = 65536,
        .max_pending_connects = 1024,
        .max_discriminator = VIPL_MAX_DISCRIMINATOR,
        .reliability_levels =
            VIP_SERVICE_UNRELIABLE | VIP_SERVICE_RELIABLE_DELIVERY | VIP_SERVICE_RELIABLE_RECEPTION,
        .rdma_read_levels = VIP_SERVICE_RELIABLE_DELIVERY | VIP_SERVICE_RELIABLE_RECEPTION,
        .hardware_version = 0,
    };
}

static void tcp_address(struct vipl_be_nic *be, struct vipl_address *out)
{
    *out = be->address;
}

static void tcp_abandon(void)
{
    /* there is nothing of the process; a device's loop is left alone, its descriptors are closed (os.h) */
}

/* Peers reach registered memory through this program only: core's own table is all there is. */
static VIP_RETURN tcp_region_add(struct vipl_be_nic *be, const struct vipl_region_params *region)
{
    (void)be;
    (void)region;
    return VIP_SUCCESS;
}

static VIP_RETURN tcp_region_remove(struct vipl_be_nic *be, VIP_MEM_HANDLE handle)
{
    (void)be;
    (void)handle;
    return VIP_SUCCESS;
}

static VIP_RETURN tcp_regions_end(struct vipl_be_nic *be)
{
    (void)be;
    return VIP_SUCCESS;
}

static VIP_RETURN tcp_vi_create(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    (void)be;
    (void)vi;
    return VIP_SUCCESS; /* an idle VI costs the backend nothing */
}

static void tcp_vi_destroy(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    (void)be;
    (void)vi;
}

const struct vipl_backend vipl_tcp_ops = {
    .name = "tcp",
    .open = tcp_open,
    .close = tcp_close,
    .limits = tcp_limits,
    .address = tcp_address,
    .resolve = vipl_tcp_resolve,
    .reverse = vipl_tcp_reverse,
    .abandon = tcp_abandon,
    .region_add = tcp_region_add,
    .region_remove = tcp_region_remove,
    .region_change = tcp_region_add,
    .regions_end = tcp_regions_end,
    .vi_create = tcp_vi_create,
    .vi_destroy = tcp_vi_destroy,
    .listen = vipl_tcp_listen,
    .unlisten = vipl_tcp_unlisten,
    .connect = vipl_tcp_connect,
    .connect_cancel = vipl_tcp_connect_cancel,
    .conn_taken = vipl_tcp_conn_taken,
    .conn_accept = vipl_tcp_conn_accept,
    .conn_reject = vipl_tcp_conn_reject,
    .revoke = vipl_tcp_revoke,
    .disconnect = vipl_tcp_disconnect,
    .post_send = vipl_tcp_post_send,
    .poll = vipl_tcp_poll,
    .prepare_wait = vipl_tcp_prepare_wait,
    .finish_wait = vipl_tcp_finish_wait,
};
