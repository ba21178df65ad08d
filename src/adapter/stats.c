/* SPDX-License-Identifier: MIT */
/* Registers and counters of all functions that have programs. To the card nobody has read them. */
#include "adapter/stats.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "adapter/adapter.h"
#include "rnic/registers.h"

enum { TEXT_BYTES = 256 * 1024 };

struct text {
    char *at;
    size_t length;
    size_t size;
};

static void append_text(struct text *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(t->at + t->length, t->size - t->length, format, arguments);
    va_end(arguments);
    t->length += length < 0                             ? 0
                 : (size_t)length < t->size - t->length ? (size_t)length
                                                        : t->size - t->length - 1;
}

static uint32_t get(struct rnic_adapter *a, unsigned fn, uint32_t offset)
{
    return rnic_card_look(&a->card, fn, offset);
}

struct named {
    const char *name;
    uint32_t offset;
};

static void add_registers(struct text *t, struct rnic_adapter *a, unsigned fn)
{
    static const struct named registers[] = {
        {"ctrl", RNIC_REG_CTRL},        {"status", RNIC_REG_STATUS},       {"errors", RNIC_REG_ERROR_COUNT},
        {"error", RNIC_REG_ERROR_CODE}, {"object", RNIC_REG_ERROR_OBJECT}, {"qps", RNIC_REG_QPS_USED},
        {"cqs", RNIC_REG_CQS_USED},     {"stags", RNIC_REG_STAGS_USED},    {"pbl", RNIC_REG_PBL_USED}};
    static const struct named counters[] = {{"tx_frames", RNIC_REG_TX_FRAMES_LO},
                                            {"rx_frames", RNIC_REG_RX_FRAMES_LO},
                                            {"tx_bytes", RNIC_REG_TX_BYTES_LO},
                                            {"rx_bytes", RNIC_REG_RX_BYTES_LO},
                                            {"resent", RNIC_REG_RESENT_LO},
                                            {"dropped", RNIC_REG_DROPPED_LO},
                                            {"dma_reads", RNIC_REG_DMA_READS_LO},
                                            {"dma_writes", RNIC_REG_DMA_WRITES_LO},
                                            {"dma_failed", RNIC_REG_DMA_FAILED_LO},
                                            {"interrupts", RNIC_REG_INTERRUPTS_LO},
                                            {"commands", RNIC_REG_COMMANDS_LO},
                                            {"wakes", RNIC_REG_WAKES_LO},
                                            {"raw_missed", RNIC_REG_RAW_MISSED_LO},
                                            {"aotf_overrun", RNIC_REG_AOTF_OVERRUN_LO},
                                            {"aotf_dropped", RNIC_REG_AOTF_DROPPED_LO}};
    for (size_t i = 0; i < sizeof(registers) / sizeof(registers[0]); i++) {
        append_text(t, "%s%s=%u", i == 0 ? "  " : " ", registers[i].name, get(a, fn, registers[i].offset));
    }
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
        uint64_t low = get(a, fn, counters[i].offset);
        uint64_t high = get(a, fn, counters[i].offset + 4);
        append_text(t, "%s%s=%llu", i == 0 ? "\n  " : " ", counters[i].name,
                    (unsigned long long)(high << 32 | low));
    }
    append_text(t, "\n");
}

/* What one queue pair more takes of the card. */
static size_t bytes_per_qp(const struct rnic_card_config *config)
{
    struct rnic_card_config less = *config;
    less.qps = config->qps / 2;
    size_t difference = rnic_card_bytes(config) - rnic_card_bytes(&less);
    return config->qps == less.qps ? 0 : difference / (config->qps - less.qps);
}

static void add_card(struct text *t, struct rnic_adapter *a)
{
    const uint8_t *mac = a->config.mac;
    append_text(
        t, "card %02x:%02x:%02x:%02x:%02x:%02x mtu=%u functions=%u programs=%u qps=%u bytes_per_qp=%zu\n",
        mac[0], mac[1], mac[2], mac[3], mac[4], mac[5], a->config.mtu, a->config.functions, a->users,
        a->config.qps, bytes_per_qp(&a->config));
    if (a->wire != NULL) {
        const struct rnic_adapter_wire_counters *w = rnic_adapter_wire_counted(a->wire);
        append_text(t, "wire sent=%llu received=%llu lost=%llu\n", (unsigned long long)w->sent,
                    (unsigned long long)w->received, (unsigned long long)w->lost);
    }
    if (rnic_log_error(&a->log) != 0) {
        char reason[64];
        append_text(t, "log ended: %s\n", vipl_os_error(rnic_log_error(&a->log), reason, sizeof(reason)));
    }
}

size_t rnic_stats_write(struct rnic_adapter *adapter, char *text, size_t size)
{
    struct text t = {text, 0, size};
    add_card(&t, adapter);
    for (unsigned i = 0; i < adapter->config.functions; i++) {
        const struct rnic_function *f = &adapter->functions[i];
        if (f->channel.fd >= 0) {
            append_text(&t, "function %u pid=%d maps=%zu files=%u\n", i, f->pid, f->dma.maps.count,
                        f->dma.file_count);
            add_registers(&t, adapter, i);
        }
    }
    return t.length;
}

/* One who asks gets the whole text in the socket's buffer, or a part, and is not waited for. */
static void send_stats(struct rnic_listener *listener, int fd)
{
    size_t sent;
    char *text = vipl_alloc(TEXT_BYTES);
    if (text != NULL) {
        size_t length = rnic_stats_write(listener->adapter, text, TEXT_BYTES);
        (void)vipl_unix_send(fd, text, length, NULL, 0, &sent);
    }
    vipl_free(text);
    vipl_fd_close(fd);
}

void rnic_stats_init(struct rnic_listener *stats, struct rnic_adapter *adapter)
{
    rnic_listener_init_for(stats, adapter, send_stats);
}

int rnic_stats_path(const char *socket, char path[RNIC_MAX_PATH])
{
    return snprintf(path, RNIC_MAX_PATH, "%s.stats", socket) < RNIC_MAX_PATH ? 0 : ENAMETOOLONG;
}
