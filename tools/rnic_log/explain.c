/* SPDX-License-Identifier: MIT */
/* Transactions in words. */
#include "explain.h"

#include <inttypes.h>

#include "adapter/log.h"
#include "frame.h"
#include "names.h"
#include "rnic/entry.h"
#include "rnic/registers.h"

static uint32_t number(const struct ring_entry *entry, unsigned offset)
{
    return rnic_get32(entry->bytes + offset, entry->big);
}

static uint16_t small(const struct ring_entry *entry, unsigned offset)
{
    return rnic_get16(entry->bytes + offset, entry->big);
}

/* --- entries --- */

static void explain_command(FILE *to, const struct ring_entry *entry)
{
    uint16_t opcode = small(entry, RNIC_CMD_OPCODE);

    fprintf(to, "command %s object=%" PRIu32, log_name_of(LOG_COMMAND, opcode),
            number(entry, RNIC_CMD_OBJECT));
    if (opcode == RNIC_COMMAND_MODIFY_QP && entry->bytes[RNIC_CMD_QP_STATE] != RNIC_QP_STATE_KEEP) {
        fprintf(to, " state=%s", log_name_of(LOG_QP_STATE, entry->bytes[RNIC_CMD_QP_STATE]));
    }
    if (opcode == RNIC_COMMAND_SET_RING || opcode == RNIC_COMMAND_CREATE_CQ ||
        opcode == RNIC_COMMAND_RESIZE_CQ) {
        fprintf(to, " entries=%" PRIu64 " base=0x%" PRIx64,
                UINT64_C(1) << (small(entry, RNIC_CMD_RING_LOG2) & 63),
                rnic_get64(entry->bytes + RNIC_CMD_RING_BASE, entry->big));
    }
    if (opcode == RNIC_COMMAND_SET_TEMPLATE) {
        fprintf(to, " page=%u", small(entry, RNIC_CMD_TEMPLATE_PAGE));
    }
    if (opcode == RNIC_COMMAND_REGISTER) {
        fprintf(to, " length=%" PRIu64 " pages=%" PRIu32,
                rnic_get64(entry->bytes + RNIC_CMD_MR_LENGTH, entry->big), number(entry, RNIC_CMD_MR_PAGES));
    }
}

static void explain_answer(FILE *to, const struct ring_entry *entry)
{
    uint16_t opcode = rnic_get16(entry->command + RNIC_CMD_OPCODE, entry->big);

    fprintf(to, "answer %s %s object=%" PRIu32 " info=%" PRIu32, log_name_of(LOG_COMMAND, opcode),
            log_name_of(LOG_STATUS, small(entry, RNIC_CQE_STATUS)), number(entry, RNIC_CQE_QP),
            number(entry, RNIC_CQE_INFO));
}

static void explain_event(FILE *to, const struct ring_entry *entry)
{
    uint16_t kind = small(entry, RNIC_EVT_KIND);

    fprintf(to, "event %s object=%" PRIu32, log_name_of(LOG_EVENT, kind), number(entry, RNIC_EVT_OBJECT));
    if (kind == RNIC_EVENT_QP_ERROR) {
        fprintf(to, " code=%s", log_name_of(LOG_ERROR, small(entry, RNIC_EVT_CODE)));
    }
    if (kind == RNIC_EVENT_CONTROL) {
        fprintf(to, " message=%s", log_name_of(LOG_CONTROL, entry->bytes[RNIC_EVT_MESSAGE + RNIC_CTL_KIND]));
    }
}

static void explain_store(FILE *to, const struct rnic_transaction *c, const struct ring_entry *entry)
{
    fprintf(to,
            "store qp=%" PRIu32 " stag=0x%" PRIx32 " remote=0x%" PRIx64 " bytes=%" PRIu32 " value=0x%" PRIx64,
            entry->object, entry->remote_stag, entry->remote_address, c->bytes, c->value);
}

static void explain_entry(FILE *to, const struct rnic_transaction *c, const struct ring_entry *entry)
{
    switch (entry->kind) {
    case RING_COMMAND:
        explain_command(to, entry);
        break;
    case RING_ANSWER:
        explain_answer(to, entry);
        break;
    case RING_EVENT:
        explain_event(to, entry);
        break;
    case RING_COMPLETION:
        fprintf(to, "completion cq=%" PRIu32 " qp=%" PRIu32 " %s %s length=%" PRIu32, entry->object,
                number(entry, RNIC_CQE_QP), log_name_of(LOG_WORK, entry->bytes[RNIC_CQE_OPCODE]),
                log_name_of(LOG_STATUS, small(entry, RNIC_CQE_STATUS)), number(entry, RNIC_CQE_LENGTH));
        break;
    case RING_SEND:
    case RING_RECEIVE:
        fprintf(to, "work qp=%" PRIu32 " %s segments=%u length=%" PRIu32, entry->object,
                log_name_of(LOG_WORK, entry->bytes[RNIC_WQE_OPCODE]), small(entry, RNIC_WQE_SEGMENTS),
                number(entry, RNIC_WQE_LENGTH));
        break;
    case RING_WINDOW:
        fprintf(to, "window qp=%" PRIu32 " index=%" PRIu32 " %s length=%u", entry->object,
                number(entry, RNIC_WINDOW_END), log_name_of(LOG_WORK, entry->bytes[RNIC_WINDOW_OPCODE]),
                small(entry, RNIC_WINDOW_LENGTH));
        break;
    case RING_PAYLOAD:
        fprintf(to, "window qp=%" PRIu32 " payload", entry->object);
        break;
    case RING_STORE:
        explain_store(to, c, entry);
        break;
    }
}

/* --- everything else --- */

static void explain_register(FILE *to, const struct rnic_transaction *c)
{
    enum { MSIX_BYTES = 16 };
    const struct log_register *known = c->bar == 0 ? log_register_at(c->address) : NULL;

    fprintf(to, "%s ", c->kind == RNIC_TRANSACTION_REGISTER_READ ? "read" : "write");
    if (known != NULL && known->offset == RNIC_REG_AOTF) {
        uint64_t at = c->address - RNIC_REG_AOTF;
        fprintf(to, "AOTF page=%" PRIu64 " offset=%" PRIu64 " bytes=%" PRIu32, at / RNIC_AOTF_PAGE_BYTES,
                at % RNIC_AOTF_PAGE_BYTES, c->bytes);
    } else if (known != NULL) {
        fprintf(to, "%s", known->name);
    } else if (c->bar == 0 && c->address >= RNIC_MSIX_TABLE &&
               c->address < RNIC_MSIX_TABLE + MSIX_BYTES * RNIC_VECTORS) {
        fprintf(to, "MSIX_TABLE vector=%" PRIu64 " offset=%" PRIu64,
                (c->address - RNIC_MSIX_TABLE) / MSIX_BYTES, c->address % MSIX_BYTES);
    } else {
        fprintf(to, "bar%u+0x%" PRIx64, c->bar, c->address);
    }
    fprintf(to, " value=0x%" PRIx64, c->value);
}

static void explain_doorbell(FILE *to, const struct rnic_transaction *c)
{
    static const char *const of_qp[] = {"SQ", "RQ", "RQ_HELD"};
    static const char *const of_cq[] = {"CONSUMER", "ARM"};
    enum { BYTES = 64 };
    uint64_t word = c->address % BYTES / 4;

    fprintf(to, "doorbell ");
    if (c->address >= RNIC_DB_CQ && word < sizeof(of_cq) / sizeof(of_cq[0])) {
        fprintf(to, "cq=%" PRIu64 " %s", (c->address - RNIC_DB_CQ) / BYTES, of_cq[word]);
    } else if (c->address >= RNIC_DB_QP && c->address < RNIC_DB_CQ &&
               word < sizeof(of_qp) / sizeof(of_qp[0])) {
        fprintf(to, "qp=%" PRIu64 " %s", (c->address - RNIC_DB_QP) / BYTES, of_qp[word]);
    } else {
        fprintf(to, "%s",
                c->address == RNIC_DB_COMMAND_PRODUCER
                    ? "COMMAND_PRODUCER"
                    : (c->address == RNIC_DB_EVENT_CONSUMER ? "EVENT_CONSUMER" : "?"));
    }
    fprintf(to, " index=%" PRIu64, c->value);
}

static void explain_frame(FILE *to, const struct rnic_transaction *c)
{
    struct efe_header frame;

    fprintf(to, "%s ", rnic_log_kind(c->kind));
    if (!log_frame_read(c, &frame)) {
        fprintf(to, "damaged bytes=%" PRIu32, c->bytes);
        return;
    }
    fprintf(to, "%s", log_name_of(LOG_EFE_TYPE, frame.type));
    if (frame.type == EFE_CONTROL && frame.payload_bytes > RNIC_CTL_KIND) {
        const uint8_t *message = (const uint8_t *)c->data + EFE_PAYLOAD_AT;
        fprintf(to, " message=%s", log_name_of(LOG_CONTROL, message[RNIC_CTL_KIND]));
    } else {
        fprintf(to, " qp=%u from=%u", frame.to_qp, frame.from_qp);
    }
    fprintf(to, " sequence=%" PRIu32 " next=%" PRIu32 " payload=%u", frame.sequence, frame.next_expected,
            frame.payload_bytes);
}

/* The log may have been written by another program: characters that are no text are not printed. */
static void explain_text(FILE *to, const struct rnic_transaction *c)
{
    const uint8_t *text = c->data;

    for (uint32_t i = 0; text != NULL && i < c->bytes; i++) {
        putc(text[i] >= ' ' && text[i] <= '~' ? text[i] : '?', to);
    }
}

static void explain_other(FILE *to, const struct rnic_transaction *c)
{
    switch (c->kind) {
    case RNIC_TRANSACTION_REGISTER_READ:
    case RNIC_TRANSACTION_REGISTER_WRITE:
        explain_register(to, c);
        break;
    case RNIC_TRANSACTION_DOORBELL:
        explain_doorbell(to, c);
        break;
    case RNIC_TRANSACTION_FRAME_SENT:
    case RNIC_TRANSACTION_FRAME_RECEIVED:
        explain_frame(to, c);
        break;
    case RNIC_TRANSACTION_INTERRUPT:
        fprintf(to, "interrupt vector=%" PRIu64, c->value);
        break;
    case RNIC_TRANSACTION_SLEEP:
        fprintf(to, "%s", c->value != 0 ? "sleep" : "wake");
        break;
    case RNIC_TRANSACTION_RESET:
        fprintf(to, "reset");
        break;
    case RNIC_TRANSACTION_CONFIG_READ:
    case RNIC_TRANSACTION_CONFIG_WRITE:
        fprintf(to, "%s address=0x%" PRIx64 " value=0x%" PRIx64 " bytes=%" PRIu32, rnic_log_kind(c->kind),
                c->address, c->value, c->bytes);
        break;
    case RNIC_TRANSACTION_CARD:
    case RNIC_TRANSACTION_IMPAIR:
    case RNIC_TRANSACTION_FAULTS:
        fprintf(to, "%s ", rnic_log_kind(c->kind));
        explain_text(to, c);
        break;
    case RNIC_TRANSACTION_ATTACH:
    case RNIC_TRANSACTION_DETACH:
    case RNIC_TRANSACTION_LINK:
    case RNIC_TRANSACTION_ADVANCE:
    case RNIC_TRANSACTION_TRY_SLEEP:
    case RNIC_TRANSACTION_GONE:
        fprintf(to, "%s value=%" PRIu64, rnic_log_kind(c->kind), c->value);
        break;
    default:
        fprintf(to, "%s%s address=0x%" PRIx64 " bytes=%" PRIu32, rnic_log_kind(c->kind),
                c->failed ? " failed" : "", c->address, c->bytes);
        break;
    }
}

void explain(FILE *to, const struct rnic_transaction *c, const struct ring_entry *entry)
{
    const uint64_t second = 1000000000;

    fprintf(to, "%" PRIu64 ".%09" PRIu64 " fn=%u ", c->time / second, c->time % second, c->fn);
    if (entry != NULL) {
        explain_entry(to, c, entry);
    } else {
        explain_other(to, c);
    }
    putc('\n', to);
}
