/* SPDX-License-Identifier: MIT */
/* Coverage. A queue pair that goes to ERROR by itself is known from the completion of DRAINED. One
 * may have closed before the command that told it to is answered. */
#include "coverage.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "frame.h"
#include "names.h"
#include "rnic/entry.h"
#include "rnic/registers.h"

enum {
    MAX_VALUES = 64, /* of one table */
    MAX_REGISTERS = 128
};

struct transition {
    uint8_t from;
    uint8_t to;
    const char *name;
};
/* Those that the data sheet has. */
static const struct transition transitions[] = {
    {RNIC_QP_STATE_IDLE, RNIC_QP_STATE_RECEIVE, "IDLE-RECEIVE"},
    {RNIC_QP_STATE_IDLE, RNIC_QP_STATE_CONNECTED, "IDLE-CONNECTED"},
    {RNIC_QP_STATE_IDLE, RNIC_QP_STATE_ERROR, "IDLE-ERROR"},
    {RNIC_QP_STATE_RECEIVE, RNIC_QP_STATE_CONNECTED, "RECEIVE-CONNECTED"},
    {RNIC_QP_STATE_RECEIVE, RNIC_QP_STATE_ERROR, "RECEIVE-ERROR"},
    {RNIC_QP_STATE_CONNECTED, RNIC_QP_STATE_CLOSING, "CONNECTED-CLOSING"},
    {RNIC_QP_STATE_CONNECTED, RNIC_QP_STATE_ERROR, "CONNECTED-ERROR"},
    {RNIC_QP_STATE_CLOSING, RNIC_QP_STATE_ERROR, "CLOSING-ERROR"},
    {RNIC_QP_STATE_ERROR, RNIC_QP_STATE_IDLE, "ERROR-IDLE"},
};
enum { TRANSITIONS = sizeof(transitions) / sizeof(transitions[0]) };

struct coverage {
    bool read[MAX_REGISTERS];
    bool written[MAX_REGISTERS];
    bool values[LOG_TABLES][MAX_VALUES];
    bool went[TRANSITIONS];
    /* The state of each queue pair of each function, plus 1; 0: none is known. */
    uint8_t *states[RNIC_CARD_MAX_FUNCTIONS];
};

struct coverage *coverage_new(void)
{
    return calloc(1, sizeof(struct coverage));
}

void coverage_begin(struct coverage *coverage)
{
    for (unsigned i = 0; i < RNIC_CARD_MAX_FUNCTIONS; i++) {
        free(coverage->states[i]);
        coverage->states[i] = NULL;
    }
}

void coverage_free(struct coverage *coverage)
{
    if (coverage != NULL) {
        coverage_begin(coverage);
        free(coverage);
    }
}

static void touch(struct coverage *coverage, enum log_table table, uint32_t value)
{
    int place = log_place_of(table, value);
    if (place >= 0 && place < MAX_VALUES) {
        coverage->values[table][place] = true;
    }
}

/* --- queue pairs --- */

/* The state of a queue pair, plus 1, or NULL: it is not followed. */
static uint8_t *state_of(struct coverage *coverage, unsigned fn, uint32_t qp)
{
    if (qp >= RNIC_QP_LIMIT) {
        return NULL;
    }
    if (coverage->states[fn] == NULL) {
        coverage->states[fn] = calloc(RNIC_QP_LIMIT, 1);
    }
    return coverage->states[fn] == NULL ? NULL : &coverage->states[fn][qp];
}

static void begin_qp(struct coverage *coverage, unsigned fn, uint32_t qp)
{
    uint8_t *state = state_of(coverage, fn, qp);
    if (state != NULL) {
        *state = RNIC_QP_STATE_IDLE + 1;
        touch(coverage, LOG_QP_STATE, RNIC_QP_STATE_IDLE);
    }
}

static void go(struct coverage *coverage, unsigned fn, uint32_t qp, uint8_t to)
{
    uint8_t *state = state_of(coverage, fn, qp);
    if (state == NULL) {
        return;
    }
    for (unsigned i = 0; i < TRANSITIONS; i++) {
        if (*state == transitions[i].from + 1 && to == transitions[i].to) {
            coverage->went[i] = true;
        }
    }
    *state = (uint8_t)(to + 1);
    touch(coverage, LOG_QP_STATE, to);
}

static void follow_answer(struct coverage *coverage, unsigned fn, const struct ring_entry *entry)
{
    const uint8_t *command = entry->command;
    uint16_t opcode = rnic_get16(command + RNIC_CMD_OPCODE, entry->big);
    uint32_t object = rnic_get32(command + RNIC_CMD_OBJECT, entry->big);
    uint8_t state = command[RNIC_CMD_QP_STATE];

    if (rnic_get16(entry->bytes + RNIC_CQE_STATUS, entry->big) != RNIC_STATUS_OK) {
        return;
    }
    if (opcode == RNIC_COMMAND_CREATE_QP) {
        begin_qp(coverage, fn, rnic_get32(entry->bytes + RNIC_CQE_INFO, entry->big));
    } else if (opcode == RNIC_COMMAND_MODIFY_QP && state != RNIC_QP_STATE_KEEP &&
               state != RNIC_QP_STATE_CLOSING) {
        go(coverage, fn, object, state);
    } else if (opcode == RNIC_COMMAND_QUERY_QP) {
        touch(coverage, LOG_ERROR, rnic_get32(entry->bytes + RNIC_CQE_LENGTH, entry->big));
    }
}

static void follow_command(struct coverage *coverage, unsigned fn, const struct ring_entry *entry)
{
    uint32_t qp = rnic_get32(entry->bytes + RNIC_CMD_OBJECT, entry->big);
    const uint8_t *state = state_of(coverage, fn, qp);

    if (rnic_get16(entry->bytes + RNIC_CMD_OPCODE, entry->big) == RNIC_COMMAND_MODIFY_QP &&
        entry->bytes[RNIC_CMD_QP_STATE] == RNIC_QP_STATE_CLOSING && state != NULL &&
        *state == RNIC_QP_STATE_CONNECTED + 1) {
        go(coverage, fn, qp, RNIC_QP_STATE_CLOSING);
    }
}

static void add_completion(struct coverage *coverage, unsigned fn, const struct ring_entry *entry)
{
    touch(coverage, LOG_STATUS, rnic_get16(entry->bytes + RNIC_CQE_STATUS, entry->big));
    touch(coverage, LOG_WORK, entry->bytes[RNIC_CQE_OPCODE]);
    if (entry->bytes[RNIC_CQE_OPCODE] == RNIC_WORK_DRAINED) {
        go(coverage, fn, rnic_get32(entry->bytes + RNIC_CQE_QP, entry->big), RNIC_QP_STATE_ERROR);
    }
}

/* --- transactions --- */

static void add_event(struct coverage *coverage, const struct ring_entry *entry)
{
    uint16_t kind = rnic_get16(entry->bytes + RNIC_EVT_KIND, entry->big);

    touch(coverage, LOG_EVENT, kind);
    if (kind == RNIC_EVENT_QP_ERROR) {
        touch(coverage, LOG_ERROR, rnic_get16(entry->bytes + RNIC_EVT_CODE, entry->big));
    }
}

static void add_entry(struct coverage *coverage, unsigned fn, const struct ring_entry *entry)
{
    switch (entry->kind) {
    case RING_COMMAND:
        touch(coverage, LOG_COMMAND, rnic_get16(entry->bytes + RNIC_CMD_OPCODE, entry->big));
        follow_command(coverage, fn, entry);
        break;
    case RING_ANSWER:
        touch(coverage, LOG_STATUS, rnic_get16(entry->bytes + RNIC_CQE_STATUS, entry->big));
        follow_answer(coverage, fn, entry);
        break;
    case RING_EVENT:
        add_event(coverage, entry);
        break;
    case RING_COMPLETION:
        add_completion(coverage, fn, entry);
        break;
    case RING_SEND:
    case RING_RECEIVE:
        touch(coverage, LOG_WORK, entry->bytes[RNIC_WQE_OPCODE]);
        break;
    case RING_WINDOW:
        touch(coverage, LOG_WORK, entry->bytes[RNIC_WINDOW_OPCODE]);
        break;
    case RING_PAYLOAD:
    case RING_STORE:
        break;
    }
}

static void add_register(struct coverage *coverage, const struct rnic_transaction *c)
{
    const struct log_register *known = c->bar == 0 ? log_register_at(c->address) : NULL;

    if (known == NULL) {
        return;
    }
    if (c->kind == RNIC_TRANSACTION_REGISTER_WRITE) {
        coverage->written[known - log_registers] = true;
        return;
    }
    coverage->read[known - log_registers] = true;
    if (known->offset == RNIC_REG_ERROR_CODE) {
        touch(coverage, LOG_ERROR, (uint32_t)c->value);
    }
}

static void add_frame(struct coverage *coverage, const struct rnic_transaction *c)
{
    struct efe_header frame;

    if (!log_frame_read(c, &frame)) {
        return;
    }
    touch(coverage, LOG_EFE_TYPE, frame.type);
    if (frame.type == EFE_CONTROL && frame.payload_bytes > RNIC_CTL_KIND) {
        touch(coverage, LOG_CONTROL, ((const uint8_t *)c->data)[EFE_PAYLOAD_AT + RNIC_CTL_KIND]);
    }
}

void coverage_add(struct coverage *coverage, const struct rnic_transaction *c, const struct ring_entry *entry)
{
    if (entry != NULL && entry->kind != RING_STORE) { /* which is an access to a register */
        add_entry(coverage, c->fn, entry);
        return;
    }
    switch (c->kind) {
    case RNIC_TRANSACTION_REGISTER_READ:
    case RNIC_TRANSACTION_REGISTER_WRITE:
        add_register(coverage, c);
        break;
    case RNIC_TRANSACTION_FRAME_SENT:
    case RNIC_TRANSACTION_FRAME_RECEIVED:
        add_frame(coverage, c);
        break;
    case RNIC_TRANSACTION_RESET:
        if (c->fn < RNIC_CARD_MAX_FUNCTIONS && coverage->states[c->fn] != NULL) {
            memset(coverage->states[c->fn], 0, RNIC_QP_LIMIT);
        }
        break;
    default:
        break;
    }
}

/* --- the report --- */

/* A list of names, some of which were touched. */
struct part {
    const char *title;
    unsigned count;
    const char *(*name)(const void *of, unsigned i);
    bool (*counts)(const void *of, unsigned i); /* NULL: all do */
    const bool *touched;
    const void *of;
};

typedef void print_part(FILE *to, const struct part *part);

static const char *name_of_value(const void *of, unsigned i)
{
    const struct log_names *names = of;
    return names->of[i].name;
}

static const char *name_of_register(const void *of, unsigned i)
{
    (void)of;
    return log_registers[i].name;
}

static bool may(const void *of, unsigned i)
{
    const unsigned *access = of;
    return (log_registers[i].access & *access) != 0;
}

static const char *name_of_transition(const void *of, unsigned i)
{
    (void)of;
    return transitions[i].name;
}

/* KEEP is a value of the command, and no state. */
static bool is_counted(const void *of, unsigned i)
{
    const struct log_names *names = of;
    return names != &log_tables[LOG_QP_STATE] || names->of[i].value != RNIC_QP_STATE_KEEP;
}

static void each_part(const struct coverage *coverage, FILE *to, print_part *print)
{
    static const unsigned reads = LOG_MAY_READ;
    static const unsigned writes = LOG_MAY_WRITE;

    print(to, &(struct part){"registers read", log_register_count, name_of_register, may, coverage->read,
                             &reads});
    print(to, &(struct part){"registers written", log_register_count, name_of_register, may,
                             coverage->written, &writes});
    for (unsigned i = 0; i < LOG_TABLES; i++) {
        print(to, &(struct part){log_tables[i].title, log_tables[i].count, name_of_value, is_counted,
                                 coverage->values[i], &log_tables[i]});
    }
    print(to, &(struct part){"transitions", TRANSITIONS, name_of_transition, NULL, coverage->went, NULL});
}

static bool is_in(const struct part *part, unsigned i)
{
    return part->counts == NULL || part->counts(part->of, i);
}

static void count(const struct part *part, unsigned *all, unsigned *touched)
{
    *all = 0;
    *touched = 0;
    for (unsigned i = 0; i < part->count; i++) {
        *all += is_in(part, i) ? 1 : 0;
        *touched += is_in(part, i) && part->touched[i] ? 1 : 0;
    }
}

static void print_text(FILE *to, const struct part *part)
{
    unsigned all;
    unsigned touched;

    count(part, &all, &touched);
    fprintf(to, "%s: %u of %u%s", part->title, touched, all, touched == all ? "" : "; never:");
    for (unsigned i = 0; i < part->count; i++) {
        if (is_in(part, i) && !part->touched[i]) {
            fprintf(to, " %s", part->name(part->of, i));
        }
    }
    putc('\n', to);
}

static void print_json(FILE *to, const struct part *part)
{
    const char *between = "";
    unsigned all;
    unsigned touched;

    count(part, &all, &touched);
    fprintf(to, ", \"%s\": {\"touched\": %u, \"of\": %u, \"never\": [", part->title, touched, all);
    for (unsigned i = 0; i < part->count; i++) {
        if (is_in(part, i) && !part->touched[i]) {
            fprintf(to, "%s\"%s\"", between, part->name(part->of, i));
            between = ", ";
        }
    }
    fprintf(to, "]}");
}

void coverage_print(const struct coverage *coverage, FILE *to)
{
    each_part(coverage, to, print_text);
}

void coverage_print_json(const struct coverage *coverage, FILE *to)
{
    fprintf(to, "{\"schema\": 1");
    each_part(coverage, to, print_json);
    fprintf(to, "}\n");
}
