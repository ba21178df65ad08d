/* SPDX-License-Identifier: MIT */
/* The device "tcp": settings, limits, its address, names of hosts, and the operations table. */
#include "backends/tcp/address.h"
#include "backends/tcp/connect.h"
#include "backends/tcp/listen.h"
#include "backends/tcp/loop.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "base/config.h"
#include "base/hostname.h"
#include "base/lock_rank.h"
#include "base/log.h"
#include "base/pool.h"
#include "os/os_atomic.h"

/* --- settings --- */

static void read_ports(struct tcp_settings *settings)
{
    uint32_t last;
    vipl_config_range("VIPL_TCP_PORTS", &settings->first_port, &last);
    settings->ports = last - settings->first_port + 1;
    settings->probes = settings->ports < TCP_MAX_PROBES ? settings->ports : TCP_MAX_PROBES;
}

static void read_settings(struct tcp_settings *settings)
{
    /* in the order of the setting's words */
    static const uint32_t crc[] = {TCP_CRC_AUTO, TCP_CRC_ON, TCP_CRC_OFF};
    read_ports(settings);
    settings->crc = crc[vipl_config_word("VIPL_MPA_CRC")];
    settings->handshake_ms = vipl_config_number("VIPL_TCP_HANDSHAKE_MS");
    settings->half_open = vipl_config_number("VIPL_TCP_HALF_OPEN");
    settings->tuning.idle_ms = vipl_config_number("VIPL_TCP_IDLE_MS");
    settings->tuning.timeout_ms = vipl_config_number("VIPL_TCP_TIMEOUT_MS");
    settings->tuning.buffer = vipl_config_number("VIPL_TCP_BUFFER");
}

/* --- addresses and names --- */

static bool from_sockaddr(const struct sockaddr *in, struct vipl_inet *out)
{
    memset(out, 0, sizeof(*out));
    if (in->sa_family == AF_INET) {
        out->host_len = 4;
        memcpy(out->host, &((const struct sockaddr_in *)(const void *)in)->sin_addr, 4);
    } else if (in->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const void *)in;
        out->host_len = 16;
        out->scope = v6->sin6_scope_id;
        memcpy(out->host, &v6->sin6_addr, 16);
    }
    return out->host_len != 0;
}

static bool parse_address(const char *text, struct vipl_inet *out)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
    return (uv_ip4_addr(text, 0, &address.v4) == 0 || uv_ip6_addr(text, 0, &address.v6) == 0) &&
           from_sockaddr(&address.any, out);
}

/* How well an interface's address suits: it must be of the named interface, if there is a name.
 * IPv4 is better than IPv6, a network better than the host itself. 0: the address does not suit. */
static int address_preference(const uv_interface_address_t *each, const char *device,
                              const struct vipl_inet *inet)
{
    bool link_local = inet->host_len == 16 && inet->host[0] == 0xFE && (inet->host[1] & 0xC0) == 0x80;
    if (device[0] != '\0' && strcmp(each->name, device) != 0) {
        return 0;
    }
    return 1 + (each->is_internal ? 0 : 4) + (inet->host_len == 4 ? 2 : 0) + (link_local ? 0 : 1);
}

/* Finds the address that the device's name stands for: an address, an interface, or (empty) the
 * best of this host. Returns false if there is none. */
static bool choose_address(const char *device, struct vipl_inet *out)
{
    uv_interface_address_t *list;
    int count;
    int best = 0;
    if (parse_address(device, out)) {
        return vipl_inet_is_own(out);
    }
    if (uv_interface_addresses(&list, &count) != 0) {
        return false;
    }
    for (int i = 0; i < count; i++) {
        struct vipl_inet inet;
        if (from_sockaddr((const struct sockaddr *)&list[i].address, &inet) &&
            address_preference(&list[i], device, &inet) > best) {
            best = address_preference(&list[i], device, &inet);
            *out = inet;
        }
    }
    uv_free_interface_addresses(list, count);
    return best > 0;
}

static VIP_RETURN tcp_resolve(struct vipl_be_nic *be, const char *name, uint32_t index,
                              struct vipl_address *out)
{
    struct tcp_nic *nic = tcp_nic_of(be);
    /* this host's name is the device's address, whatever other addresses the host has */
    struct vipl_inet inet = nic->inet;
    bool found =
        vipl_hostname_is_own(name) ? index == 0 : vipl_inet_resolve(name, index, nic->inet.host_len, &inet);
    if (!found) {
        vipl_log(VIPL_LOG_REASON, "tcp: no address of the host \"%s\" is of this device's kind", name);
        return VIP_ERROR_NAMESERVICE;
    }
    vipl_tcp_to_address(&inet, out);
    return VIP_SUCCESS;
}

static VIP_RETURN tcp_reverse(struct vipl_be_nic *be, const struct vipl_address *host, char *name,
                              size_t size)
{
    struct vipl_inet inet;
    bool found =
        vipl_tcp_from_address(host, &tcp_nic_of(be)->inet, &inet) && vipl_inet_reverse(&inet, name, size);
    return found ? VIP_SUCCESS : VIP_ERROR_NAMESERVICE;
}

/* --- the device --- */

static void make_nic(void *object)
{
    struct tcp_nic *nic = object;
    vipl_biased_init(&nic->lock, VIPL_RANK_BACKEND_RX);
    nic->poll_filter.poll = vipl_tcp_poll_fast;
}

static struct vipl_pool nic_pool = VIPL_POOL_INIT(nic_pool, struct tcp_nic, free, make_nic);

static struct tcp_nic *new_nic(void)
{
    struct tcp_nic *nic = vipl_pool_get(&nic_pool);
    if (nic != NULL) {
        vipl_biased_lock(&nic->lock);
        memset((char *)nic + offsetof(struct tcp_nic, core), 0,
               sizeof(*nic) - offsetof(struct tcp_nic, core));
        vipl_biased_unlock(&nic->lock);
    }
    return nic;
}

static void drop_nic(struct tcp_nic *nic)
{
    if (nic != NULL) {
        vipl_pool_put(&nic_pool, nic);
    }
}

static VIP_RETURN tcp_open(struct vipl_nic *core, const char *device, struct vipl_be_nic **out)
{
    struct vipl_inet inet;
    if (!choose_address(device, &inet)) {
        vipl_log(VIPL_LOG_REASON, "tcp: \"%s\" is no interface or address of this host", device);
        return VIP_ERROR_RESOURCE;
    }
    struct tcp_nic *nic = new_nic();
    uint8_t *scratch = vipl_alloc(TCP_SCRATCH + TCP_RECEIVE_PIECES * sizeof(struct vipl_iov));
    if (nic == NULL || scratch == NULL || vipl_tcp_loop_open(nic) != 0) {
        vipl_free(scratch);
        drop_nic(nic);
        return VIP_ERROR_RESOURCE;
    }
    nic->core = core;
    nic->inet = inet;
    nic->scratch = scratch;
    nic->pieces = (struct vipl_iov *)(void *)(scratch + TCP_SCRATCH);
    vipl_tcp_to_address(&inet, &nic->address);
    read_settings(&nic->settings);
    vipl_mutex_init(&nic->tx_pending_lock, VIPL_RANK_BACKEND_TX);
    vipl_list_init(&nic->conns);
    vipl_list_init(&nic->half_open);
    vipl_list_init(&nic->listeners);
    vipl_list_init(&nic->connect_ops);
    vipl_list_init(&nic->tx_pending);
    *out = (struct vipl_be_nic *)(void *)nic;
    return VIP_SUCCESS;
}

static void tcp_close(struct vipl_be_nic *be)
{
    struct tcp_nic *nic = tcp_nic_of(be);
    vipl_biased_lock(&nic->lock);
    assert(vipl_list_empty(&nic->connect_ops));
    vipl_tcp_listeners_close(nic);
    while (!vipl_list_empty(&nic->conns)) {
        vipl_tcp_conn_close(VIPL_CONTAINER(nic->conns.next, struct tcp_conn, link));
    }
    vipl_tcp_loop_close(nic);
    nic->hot = NULL;
    vipl_biased_unlock(&nic->lock);
    vipl_free(nic->spare_output);
    vipl_free(nic->spare_batch);
    vipl_free(nic->scratch);
    drop_nic(nic);
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
    *out = tcp_nic_of(be)->address;
}

static void tcp_abandon(void)
{
    /* the loops of devices are left alone: their descriptors are closed (os.h) */
    vipl_pool_abandon(&nic_pool);
}

/* Peers reach registered memory only through this process, which uses core's own table. */
static VIP_RETURN tcp_region_add(struct vipl_be_nic *be, struct vipl_region_params *region)
{
    (void)be;
    (void)region;
    return VIP_SUCCESS;
}

static VIP_RETURN tcp_region_change(struct vipl_be_nic *be, const struct vipl_region_params *region)
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

/* An idle VI costs the backend nothing. No peer reads from this process's buffers directly, and
 * what is received later finds the queues empty: there is nothing to revoke. */
static void tcp_vi_noop(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    (void)be;
    (void)vi;
}

static void tcp_disconnect(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    struct tcp_nic *nic = tcp_nic_of(be);
    vipl_biased_lock(&nic->lock);
    struct tcp_conn *conn = tcp_vi_of(vi)->conn;
    if (conn != NULL) {
        vipl_tcp_conn_detach(conn);
        vipl_tcp_conn_end(conn);
    }
    vipl_tcp_unlock(nic);
}

static void tcp_finish_wait(struct vipl_be_nic *be, const struct vipl_poll_hint *hint)
{
    (void)hint;
    /* something may have happened on any connection */
    vipl_store_relaxed(&tcp_nic_of(be)->slept, 1);
    vipl_fetch_add(&tcp_nic_of(be)->sleeping, (uint32_t)-1);
}

static bool is_listed(const uv_interface_address_t *list, int before)
{
    for (int i = 0; i < before; i++) {
        if (strcmp(list[i].name, list[before].name) == 0) {
            return true;
        }
    }
    return false;
}

/* Lists a device with the address that opening it would choose. */
static void list_interface(struct vipl_device_list *to, const char *interface)
{
    struct vipl_inet inet;
    char address[INET6_ADDRSTRLEN] = "";
    char text[128];
    if (choose_address(interface, &inet)) {
        (void)uv_inet_ntop(inet.host_len == 4 ? AF_INET : AF_INET6, inet.host, address, sizeof(address));
        snprintf(text, sizeof(text), "other hosts by TCP, %s%s",
                 interface[0] == '\0' ? "" : "by this interface, ", address);
        vipl_device_add(to, interface, text);
    }
}

static void tcp_list(struct vipl_device_list *to)
{
    uv_interface_address_t *list;
    int count;
    list_interface(to, "");
    if (uv_interface_addresses(&list, &count) == 0) {
        for (int i = 0; i < count; i++) {
            if (!is_listed(list, i)) {
                list_interface(to, list[i].name);
            }
        }
        uv_free_interface_addresses(list, count);
    }
}

static struct vipl_poll_filter *tcp_poll_filter(struct vipl_be_nic *be)
{
    return &tcp_nic_of(be)->poll_filter;
}

const struct vipl_backend vipl_tcp_ops = {
    .name = "tcp",
    .list = tcp_list,
    .open = tcp_open,
    .close = tcp_close,
    .limits = tcp_limits,
    .address = tcp_address,
    .resolve = tcp_resolve,
    .reverse = tcp_reverse,
    .abandon = tcp_abandon,
    .region_add = tcp_region_add,
    .region_remove = tcp_region_remove,
    .region_change = tcp_region_change,
    .regions_end = tcp_regions_end,
    .vi_create = tcp_vi_create,
    .vi_destroy = tcp_vi_noop,
    .listen = vipl_tcp_listen,
    .unlisten = vipl_tcp_unlisten,
    .conns_look = vipl_tcp_poll,
    .connect = vipl_tcp_connect,
    .connect_cancel = vipl_tcp_connect_cancel,
    .conn_taken = vipl_tcp_conn_taken,
    .conn_accept = vipl_tcp_conn_accept,
    .conn_reject = vipl_tcp_conn_reject,
    .revoke = tcp_vi_noop,
    .is_answering = vipl_tcp_is_answering,
    .disconnect = tcp_disconnect,
    .post_send = vipl_tcp_post_send,
    .send_short = vipl_tcp_send_short,
    .poll = vipl_tcp_poll,
    .poll_filter = tcp_poll_filter,
    .flush_deferred = vipl_tcp_flush_deferred,
    .poll_epoch = vipl_tcp_poll_epoch,
    .prepare_wait = vipl_tcp_prepare_wait,
    .finish_wait = tcp_finish_wait,
};
