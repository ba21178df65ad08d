/* SPDX-License-Identifier: MIT */
/*
 * VCD. A scope for each function has a wire for each kind of transaction, which is high for a
 * picosecond when there is one, and what the last one had: kind, address, value, bytes.
 * Transactions of one nanosecond stand two picoseconds apart, so that their order is kept.
 */
#include "vcd.h"

#include <inttypes.h>

#include "adapter/log.h"

enum {
    KINDS = RNIC_TRANSACTION_EDGE_KINDS,
    PER_NS = 1000,
    APART = 2,            /* picoseconds from one transaction to the next, at least */
    FIRST_CHARACTER = 33, /* of identifiers, "!" to "~" */
    CHARACTERS = 94
};
/* The variables of a function, before those of the kinds. */
enum { VCD_KIND, VCD_ADDRESS, VCD_VALUE, VCD_BYTES, VCD_FAILED, VCD_OF_KINDS };
enum { VARIABLES = VCD_OF_KINDS + KINDS };

static int identifier(unsigned fn, unsigned variable)
{
    unsigned place = fn < RNIC_CARD_MAX_FUNCTIONS ? fn : RNIC_CARD_MAX_FUNCTIONS;
    return (int)(place * VARIABLES + variable);
}

static void put_identifier(const struct vcd *vcd, int number)
{
    do {
        putc(FIRST_CHARACTER + number % CHARACTERS, vcd->to);
        number /= CHARACTERS;
    } while (number > 0);
}

static void put_bits(const struct vcd *vcd, uint64_t value, int number)
{
    int bit = 63;

    while (bit > 0 && (value >> bit & 1) == 0) {
        bit--;
    }
    putc('b', vcd->to);
    for (; bit >= 0; bit--) {
        putc((value >> bit & 1) != 0 ? '1' : '0', vcd->to);
    }
    putc(' ', vcd->to);
    put_identifier(vcd, number);
    putc('\n', vcd->to);
}

static void put_wire(const struct vcd *vcd, bool level, int number)
{
    putc(level ? '1' : '0', vcd->to);
    put_identifier(vcd, number);
    putc('\n', vcd->to);
}

static void declare(const struct vcd *vcd, const char *kind, unsigned bits, int number, const char *name)
{
    fprintf(vcd->to, "$var %s %u ", kind, bits);
    put_identifier(vcd, number);
    putc(' ', vcd->to);
    for (; *name != '\0'; name++) {
        putc(*name == '-' ? '_' : *name, vcd->to);
    }
    fprintf(vcd->to, " $end\n");
}

static void declare_function(const struct vcd *vcd, unsigned fn)
{
    static const struct {
        const char *name;
        unsigned bits;
    } variables[VCD_OF_KINDS] = {{"kind", 8}, {"address", 64}, {"value", 64}, {"bytes", 32}, {"failed", 1}};

    if (fn < RNIC_CARD_MAX_FUNCTIONS) {
        fprintf(vcd->to, "$scope module fn%u $end\n", fn);
    } else {
        fprintf(vcd->to, "$scope module adapter $end\n");
    }
    for (unsigned i = 0; i < VCD_OF_KINDS; i++) {
        declare(vcd, "reg", variables[i].bits, identifier(fn, i), variables[i].name);
    }
    for (unsigned kind = 0; kind < KINDS; kind++) {
        declare(vcd, "wire", 1, identifier(fn, VCD_OF_KINDS + kind),
                rnic_log_kind((enum rnic_transaction_kind)kind));
    }
    fprintf(vcd->to, "$upscope $end\n");
}

static void begin_low(const struct vcd *vcd, unsigned fn)
{
    for (unsigned kind = 0; kind < KINDS; kind++) {
        put_wire(vcd, false, identifier(fn, VCD_OF_KINDS + kind));
    }
}

void vcd_begin(struct vcd *vcd, FILE *to, const bool has[RNIC_CARD_MAX_FUNCTIONS], bool adapter)
{
    *vcd = (struct vcd){.to = to};
    fprintf(
        to,
        "$comment the transaction log of an RDMA card; kinds are numbered as in its documentation $end\n");
    fprintf(to, "$timescale 1ps $end\n");
    for (unsigned fn = 0; fn <= RNIC_CARD_MAX_FUNCTIONS; fn++) {
        if (fn < RNIC_CARD_MAX_FUNCTIONS ? has[fn] : adapter) {
            declare_function(vcd, fn);
        }
    }
    fprintf(to, "$enddefinitions $end\n#0\n$dumpvars\n");
    for (unsigned fn = 0; fn <= RNIC_CARD_MAX_FUNCTIONS; fn++) {
        if (fn < RNIC_CARD_MAX_FUNCTIONS ? has[fn] : adapter) {
            begin_low(vcd, fn);
        }
    }
    fprintf(to, "$end\n");
}

/* The pulse of the transaction before is over a picosecond after it. */
static void lower(struct vcd *vcd)
{
    if (vcd->any) {
        fprintf(vcd->to, "#%" PRIu64 "\n", vcd->at + 1);
        put_wire(vcd, false, vcd->high);
    }
}

void vcd_add(struct vcd *vcd, const struct rnic_transaction *c)
{
    int mine = identifier(c->fn, VCD_OF_KINDS + (unsigned)c->kind);

    if ((int)c->kind >= RNIC_TRANSACTION_EDGE_KINDS) { /* nothing that passes the card's edge */
        return;
    }
    vcd->begin = vcd->any ? vcd->begin : c->time;
    uint64_t at = (c->time - vcd->begin) * PER_NS;
    lower(vcd);
    vcd->at = vcd->any && at < vcd->at + APART ? vcd->at + APART : at;
    fprintf(vcd->to, "#%" PRIu64 "\n", vcd->at);
    put_bits(vcd, (uint64_t)c->kind, identifier(c->fn, VCD_KIND));
    put_bits(vcd, c->address, identifier(c->fn, VCD_ADDRESS));
    put_bits(vcd, c->value, identifier(c->fn, VCD_VALUE));
    put_bits(vcd, c->bytes, identifier(c->fn, VCD_BYTES));
    put_wire(vcd, c->failed, identifier(c->fn, VCD_FAILED));
    put_wire(vcd, true, mine);
    vcd->high = mine;
    vcd->any = true;
}

void vcd_end(struct vcd *vcd)
{
    lower(vcd);
}
