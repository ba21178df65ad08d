/* SPDX-License-Identifier: MIT */
/* Entry points of posix.h: texts of codes, and whether calls resume after signals. */
#include "base/guard.h"
#include "base/handle.h"
#include "base/log.h"
#include "core/nic.h"
#include "share/client_call.h"
#include "vipl/posix.h"
#include "vipl/version.h"

static VIP_RETURN set_restart(VIP_NIC_HANDLE NicHandle, VIP_BOOLEAN Restart)
{
    if (vipl_handle_is_shared(NicHandle)) {
        return vipl_share_set_restart(NicHandle, Restart != VIP_FALSE);
    }
    struct vipl_nic *nic = vipl_nic_get(NicHandle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    vipl_store_relaxed(&nic->restart, Restart != VIP_FALSE ? 1 : 0);
    vipl_nic_put(nic);
    return VIP_SUCCESS;
}

VIP_RETURN VI_CALL VipxSetRestart(VIP_NIC_HANDLE NicHandle, VIP_BOOLEAN Restart)
{
    return vipl_guard_enter() ? vipl_guard_leave(set_restart(NicHandle, Restart)) : VIP_ERROR_NOT_SUPPORTED;
}

/* --- texts: no lock and no allocation, so that signal handlers may call these --- */

const char *VI_CALL VipxVersion(void)
{
    return VIPL_VERSION_STRING;
}

const char *VI_CALL VipxStrError(VIP_RETURN Code)
{
    return vipl_log_code(Code);
}

const char *VI_CALL VipxExplainError(VIP_RETURN Code)
{
    return vipl_log_explain(Code);
}

/* A text that is written as far as there is room; its whole length is counted. */
struct text {
    char *to;
    size_t size;
    size_t length;
};

static void put_char(struct text *text, char c)
{
    if (text->length + 1 < text->size) {
        text->to[text->length] = c;
        text->to[text->length + 1] = '\0';
    }
    text->length++;
}

static void put_word(struct text *text, const char *word)
{
    if (text->length > 0) {
        put_char(text, ' ');
    }
    while (*word != '\0') {
        put_char(text, *word++);
    }
}

static void put_number(struct text *text, VIP_UINT32 number)
{
    put_word(text, "0x");
    for (int shift = 28; shift >= 0; shift -= 4) {
        if (number >> shift != 0) {
            put_char(text, "0123456789ABCDEF"[number >> shift & 0xF]);
        }
    }
}

size_t VI_CALL VipxStrStatus(VIP_UINT32 Status, char *Text, size_t Size)
{
    static const struct {
        VIP_UINT32 bit;
        const char *name;
    } names[] = {{VIP_STATUS_FORMAT_ERROR, "FORMAT_ERROR"},
                 {VIP_STATUS_PROTECTION_ERROR, "PROTECTION_ERROR"},
                 {VIP_STATUS_LENGTH_ERROR, "LENGTH_ERROR"},
                 {VIP_STATUS_PARTIAL_ERROR, "PARTIAL_ERROR"},
                 {VIP_STATUS_DESC_FLUSHED_ERROR, "DESC_FLUSHED_ERROR"},
                 {VIP_STATUS_TRANSPORT_ERROR, "TRANSPORT_ERROR"},
                 {VIP_STATUS_RDMA_PROT_ERROR, "RDMA_PROT_ERROR"},
                 {VIP_STATUS_REMOTE_DESC_ERROR, "REMOTE_DESC_ERROR"},
                 {VIP_STATUS_IMMEDIATE, "IMMEDIATE"}};
    static const char *const operations[] = {"SEND", "RECEIVE", "RDMA_WRITE", "REMOTE_RDMA_WRITE",
                                             "RDMA_READ"};
    struct text text = {Text, Text == NULL ? 0 : Size, 0};
    VIP_UINT32 operation = (Status & VIP_STATUS_OP_MASK) >> 16;
    VIP_UINT32 rest = Status & ~(VIP_STATUS_DONE | VIP_STATUS_OP_MASK);
    if (text.size > 0) {
        Text[0] = '\0';
    }
    put_word(&text, (Status & VIP_STATUS_DONE) != 0 ? "DONE" : "PENDING");
    if (operation < sizeof(operations) / sizeof(operations[0])) {
        put_word(&text, operations[operation]);
    } else {
        rest |= Status & VIP_STATUS_OP_MASK;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if ((rest & names[i].bit) != 0) {
            put_word(&text, names[i].name);
            rest &= ~names[i].bit;
        }
    }
    if (rest != 0) {
        put_number(&text, rest);
    }
    return text.length;
}
