/* SPDX-License-Identifier: MIT */
/* What the card is: the values of its registers of capabilities, and the way to it. */

#include <stdio.h>
#include <string.h>

#include "backends/rnic/rnic.h"

/* The next one, or the last one again, which is what a list that is full loses. */
static VIPX_PROPERTY *next(VIPX_DEVICE_PROPERTIES *out, const char *name)
{
    enum { MAX = sizeof(out->Property) / sizeof(out->Property[0]) };
    VIPX_PROPERTY *property = &out->Property[out->Count < MAX ? out->Count++ : MAX - 1];
    memset(property, 0, sizeof(*property));
    snprintf(property->Name, sizeof(property->Name), "%s", name);
    return property;
}

static void number(VIPX_DEVICE_PROPERTIES *out, const char *name, uint64_t value)
{
    next(out, name)->Number = value;
}

static void text(VIPX_DEVICE_PROPERTIES *out, const char *name, const char *value)
{
    VIPX_PROPERTY *property = next(out, name);
    snprintf(property->Text, sizeof(property->Text), "%s", value);
}

static void version(VIPX_DEVICE_PROPERTIES *out, uint32_t value)
{
    char digits[16];
    snprintf(digits, sizeof(digits), "%u.%u", (unsigned)(value >> 16), (unsigned)(value & 0xFFFF));
    text(out, "interface_version", digits);
}

static void features(VIPX_DEVICE_PROPERTIES *out, uint32_t set)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } known[] = {{RNIC_CAPS_NEVER_SLEEPS, "never_sleeps"},
                 {RNIC_CAPS_BOTF, "botf"},
                 {RNIC_CAPS_AOTF, "aotf"},
                 {RNIC_CAPS_RAW, "raw"},
                 {RNIC_CAPS_DEVICE_MEMORY, "device_memory"},
                 {RNIC_CAPS_BIG_ENDIAN, "big_endian"}};
    char names[sizeof(out->Property[0].Text)] = "";
    for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if ((set & known[i].bit) != 0) {
            size_t length = strlen(names);
            snprintf(names + length, sizeof(names) - length, "%s%s", length > 0 ? " " : "", known[i].name);
        }
    }
    text(out, "features", names[0] != '\0' ? names : "none");
}

static void tables(VIPX_DEVICE_PROPERTIES *out, const struct vipl_rnic_caps *caps)
{
    number(out, "queue_pairs", caps->qps);
    number(out, "completion_queues", caps->cqs);
    number(out, "steering_tags", caps->stags);
    number(out, "page_list_entries", caps->pbl_entries);
    number(out, "listen_entries", caps->listens);
    number(out, "work_ring_entries", UINT64_C(1) << caps->work_log2);
    number(out, "completion_ring_entries", UINT64_C(1) << caps->completions_log2);
    number(out, "segments", caps->segments);
    number(out, "message_bytes", caps->transfer);
    number(out, "rdma_reads_inbound", caps->ird);
    number(out, "rdma_reads_outbound", caps->ord);
}

static void memory(VIPX_DEVICE_PROPERTIES *out, struct vipl_rnic *rnic)
{
    const struct vipl_rnic_caps *caps = vipl_rnic_query(rnic);
    number(out, "dram_bytes", caps->dram_bytes);
    number(out, "sram_bytes", caps->sram_bytes);
    if (caps->dram_bytes > 0 || caps->sram_bytes > 0) {
        text(out, "device_memory", vipl_rnic_access(rnic)->device != NULL ? "mapped" : "not mapped");
    }
}

static void way_to_it(VIPX_DEVICE_PROPERTIES *out, struct vipl_rnic *rnic)
{
    const struct rnic_pci *pci = vipl_rnic_access(rnic);
    text(out, "access", pci->ops->name);
    text(out, "dma", pci->dma);
    text(out, "memory", pci->linear ? "linear" : "page lists");
    text(out, "doorbells", pci->doorbells != NULL ? "mapped" : "by calls");
    number(out, "botf_bytes", vipl_rnic_windows(rnic));
    number(out, "interrupt_vectors", vipl_rnic_interrupt_fd(rnic, 0) >= 0 ? RNIC_VECTORS : 0);
}

void vipl_rnic_describe(struct vipl_be_nic *be, VIPX_DEVICE_PROPERTIES *out)
{
    struct vipl_rnic *rnic = rnic_nic_of(be)->rnic;
    const struct vipl_rnic_caps *caps = vipl_rnic_query(rnic);
    version(out, caps->version);
    features(out, caps->features);
    number(out, "function", caps->function);
    number(out, "functions", caps->functions);
    tables(out, caps);
    memory(out, rnic);
    way_to_it(out, rnic);
    text(out, "link", vipl_rnic_has_link(rnic) ? "up" : "down");
    number(out, "link_mbits", caps->link_mbits);
    number(out, "frame_bytes", caps->mtu);
}
