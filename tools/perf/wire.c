/* SPDX-License-Identifier: MIT */
/*
 * Control messages as bytes, most significant first, each member at a fixed place:
 *
 *    0 magic "VPR1"   8 test     12 size    24 address   36 stride   44 timeout
 *    4 version        9 op       16 count   32 handle    40 slots    48 depth
 *    6 type          10 block                                        52 polls
 *                    11 verify                                      53 zero, to 64
 *
 * and the requester's name:
 *
 *    0 "VPR"   3 version   4 flags (1: completion queue)   5 threads   6 connections   8 party
 */
#include "wire.h"

#include <string.h>

#include "tool_wire.h"

#define NAME_MAGIC (UINT32_C(0x56505200) | PERF_VERSION)

void perf_message_encode(const struct perf_message *message, unsigned char *bytes)
{
    memset(bytes, 0, PERF_MESSAGE_BYTES);
    tool_put32(bytes, PERF_MAGIC);
    tool_put16(bytes + 4, PERF_VERSION);
    tool_put16(bytes + 6, (uint16_t)message->type);
    bytes[8] = message->test;
    bytes[9] = message->op;
    bytes[10] = message->block;
    bytes[11] = message->verify;
    tool_put32(bytes + 12, message->size);
    tool_put64(bytes + 16, message->count);
    tool_put64(bytes + 24, message->address);
    tool_put32(bytes + 32, message->handle);
    tool_put32(bytes + 36, message->stride);
    tool_put32(bytes + 40, message->slots);
    tool_put32(bytes + 44, message->timeout_ms);
    tool_put32(bytes + 48, message->depth);
    bytes[52] = message->polls;
}

bool perf_message_decode(const unsigned char *bytes, uint32_t length, struct perf_message *message)
{
    if (length != PERF_MESSAGE_BYTES || tool_get32(bytes) != PERF_MAGIC ||
        tool_get16(bytes + 4) != PERF_VERSION) {
        return false;
    }
    message->type = (enum perf_type)tool_get16(bytes + 6);
    message->test = bytes[8];
    message->op = bytes[9];
    message->block = bytes[10];
    message->verify = bytes[11];
    message->size = tool_get32(bytes + 12);
    message->count = tool_get64(bytes + 16);
    message->address = tool_get64(bytes + 24);
    message->handle = tool_get32(bytes + 32);
    message->stride = tool_get32(bytes + 36);
    message->slots = tool_get32(bytes + 40);
    message->timeout_ms = tool_get32(bytes + 44);
    message->depth = tool_get32(bytes + 48);
    message->polls = bytes[52];
    return true;
}

void perf_name_encode(const struct perf_name *from, unsigned char *name)
{
    tool_put32(name, NAME_MAGIC);
    name[4] = from->cq ? 1 : 0;
    name[5] = (unsigned char)from->threads;
    tool_put16(name + 6, (uint16_t)from->connections);
    tool_put32(name + 8, from->party);
}

bool perf_name_decode(const unsigned char *name, size_t length, struct perf_name *to)
{
    if (length != PERF_NAME_BYTES || tool_get32(name) != NAME_MAGIC) {
        return false;
    }
    to->cq = name[4] == 1;
    to->threads = name[5];
    to->connections = tool_get16(name + 6);
    to->party = tool_get32(name + 8);
    return to->threads >= 1 && to->threads <= PERF_MAX_THREADS && to->connections >= 1 &&
           to->connections <= PERF_MAX_CONNECTIONS;
}
