/* SPDX-License-Identifier: MIT */
/* Options have long names; a value follows, or stands behind "=". */
#include "adapter/options.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/serve.h"

const char rnic_options_help[] =
    "usage: vipl-rnicd [OPTION]...\n"
    "Serves an emulated RDMA card: a function of it to each program or virtual machine that connects.\n"
    "\n"
    "  --socket PATH      where programs connect (vfio-user); each gets the next free function (the user's, "
    "where\n"
    "                     programs look)\n"
    "  --dir FOLDER       FOLDER/fn-0.sock, fn-1.sock, ...: a socket for each function, for virtual "
    "machines\n"
    "  --bus PATH         where programs connect that speak the bus protocol (rnic:bus:PATH)\n"
    "  --wire WIRE        what joins it to other cards: switch, "
    "udp:ADDRESS:PORT[,peer=[MAC@]ADDRESS:PORT]...,\n"
    "                     packet:INTERFACE, tap:INTERFACE (switch)\n"
    "  --impair TEXT      a bad wire: "
    "seed=N,loss=P,reorder=P,duplicate=P,corrupt=P,delay=T,jitter=T,rate=R,queue=N\n"
    "  --fault TEXT       a bad card: NAME[=P|@N[/M]],...: dma_fail, command_timeout, interrupt_lost, "
    "removed, ...\n"
    "  --functions N      how many there are, 1 to 256 (256)\n"
    "  --mac ADDRESS      of the card, xx:xx:xx:xx:xx:xx (the interface's, or one of the\n"
    "                     machine, the user and the socket's path)\n"
    "  --mtu BYTES        payload of a frame, 576 to 9000 (9000, or the wire's)\n"
    "  --dram BYTES       device memory of each function, a multiple of 4096 up to 1G; 0: none (16M)\n"
    "  --sram BYTES       low-latency device memory, up to 1M (16K)\n"
    "  --raw N[,N]...     functions that may send and receive whole Ethernet frames (none)\n"
    "  --profile NAME     costs that are added up: none, expether2008, martini2002, modern, capture2020\n"
    "                     (none)\n"
    "  --seed NUMBER      of everything that is random about the card\n"
    "  --log FILE         what crosses the card's edge: text if it ends in .txt, else pcapng\n"
    "  --record FILE      the same, and all else that vipl-rnic-log --replay needs\n"
    "  --spin US          how long it goes on looking for something to do before it sleeps (50; 0 on one "
    "CPU)\n"
    "  --stats[=SECONDS]  what the adapter that serves the socket tells about itself, every SECONDS\n"
    "  --linger           end two seconds after the last program has gone\n"
    "  --help, --version\n";

void rnic_options_init(struct rnic_options *options)
{
    *options = (struct rnic_options){.lifeline = -1};
    rnic_adapter_defaults(&options->adapter);
}

/* --- values --- */

static bool parse_number(const char *value, uint64_t least, uint64_t most, uint64_t *out)
{
    char *end;
    unsigned long long number = strtoull(value, &end, 0);
    if (value[0] < '0' || value[0] > '9' || *end != '\0' || number < least || number > most) {
        return false;
    }
    *out = number;
    return true;
}

static bool read_u32(const char *value, uint32_t least, uint32_t most, uint32_t *out)
{
    uint64_t number;
    if (!parse_number(value, least, most, &number)) {
        return false;
    }
    *out = (uint32_t)number;
    return true;
}

static bool read_mac(const char *value, uint8_t mac[6])
{
    unsigned bytes[6];
    int end = 0;
    if (sscanf(value, "%2x:%2x:%2x:%2x:%2x:%2x%n", &bytes[0], &bytes[1], &bytes[2], &bytes[3], &bytes[4],
               &bytes[5], &end) != 6 ||
        value[end] != '\0' || (bytes[0] & 1) != 0) { /* which would be a group of cards */
        return false;
    }
    for (int i = 0; i < 6; i++) {
        mac[i] = (uint8_t)bytes[i];
    }
    return true;
}

static bool read_profile(const char *value, enum rnic_card_profile *out)
{
    static const char *const names[] = {"none", "expether2008", "martini2002", "modern", "capture2020"};
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(value, names[i]) == 0) {
            *out = (enum rnic_card_profile)i;
            return true;
        }
    }
    return false;
}

static bool read_path(const char *value, const char **out)
{
    *out = value;
    return value[0] != '\0';
}

/* --- options --- */

static bool set_socket(struct rnic_options *o, const char *value)
{
    return read_path(value, &o->adapter.socket);
}
static bool set_folder(struct rnic_options *o, const char *value)
{
    return read_path(value, &o->adapter.folder);
}
static bool set_bus(struct rnic_options *o, const char *value)
{
    return read_path(value, &o->adapter.bus);
}
static bool set_functions(struct rnic_options *o, const char *value)
{
    return read_u32(value, 1, RNIC_CARD_MAX_FUNCTIONS, &o->adapter.card.functions);
}
static bool set_mac(struct rnic_options *o, const char *value)
{
    o->adapter.has_mac = read_mac(value, o->adapter.card.mac);
    return o->adapter.has_mac;
}
static bool set_mtu(struct rnic_options *o, const char *value)
{
    o->adapter.has_mtu = read_u32(value, 576, 9000, &o->adapter.card.mtu);
    return o->adapter.has_mtu;
}
/* A number of pages' bytes; K, M and G may stand behind it. */
static bool read_pages(const char *value, uint32_t most, uint32_t *out)
{
    static const char units[] = "KMG";
    char digits[16];
    size_t length = strspn(value, "0123456789");
    const char *unit = value[length] != '\0' ? strchr(units, value[length]) : NULL;
    unsigned shift = unit != NULL ? 10 * (unsigned)(unit - units + 1) : 0;
    uint64_t number;
    if (length >= sizeof(digits) || (value[length] != '\0' && (unit == NULL || value[length + 1] != '\0'))) {
        return false;
    }
    memcpy(digits, value, length);
    digits[length] = '\0';
    if (!parse_number(digits, 0, UINT64_C(1) << 40, &number) || number > most >> shift ||
        (number << shift) % RNIC_MEMORY_UNIT != 0) {
        return false;
    }
    *out = (uint32_t)(number << shift);
    return true;
}
static bool set_dram(struct rnic_options *o, const char *value)
{
    return read_pages(value, RNIC_DRAM_MOST, &o->adapter.card.dram_bytes);
}
static bool set_sram(struct rnic_options *o, const char *value)
{
    return read_pages(value, RNIC_SRAM_MOST, &o->adapter.card.sram_bytes);
}
static bool set_profile(struct rnic_options *o, const char *value)
{
    return read_profile(value, &o->adapter.card.profile);
}
static bool set_seed(struct rnic_options *o, const char *value)
{
    return parse_number(value, 0, UINT64_MAX, &o->adapter.card.seed);
}
static bool set_spin(struct rnic_options *o, const char *value)
{
    uint32_t us = 0;
    bool good = read_u32(value, 0, 1000000, &us);
    o->adapter.spin_ns = us * UINT64_C(1000);
    return good;
}
static bool set_lifeline(struct rnic_options *o, const char *value)
{
    uint32_t fd;
    bool good = read_u32(value, 3, INT_MAX, &fd);
    o->lifeline = good ? (int)fd : -1;
    return good;
}
static bool set_wire(struct rnic_options *o, const char *value)
{
    return read_path(value, &o->adapter.wire);
}
static bool set_impair(struct rnic_options *o, const char *value)
{
    o->adapter.impair = value;
    return true;
}
static bool set_fault(struct rnic_options *o, const char *value)
{
    o->adapter.faults = value;
    return true;
}
static bool set_log(struct rnic_options *o, const char *value)
{
    return read_path(value, &o->adapter.log);
}
static bool set_record(struct rnic_options *o, const char *value)
{
    o->adapter.records = true;
    return set_log(o, value);
}
/* Its value stands behind "=" or is missing. */
static bool set_stats(struct rnic_options *o, const char *value)
{
    o->asks_stats = true;
    return value == NULL || read_u32(value, 1, 3600, &o->stats_seconds);
}
/* Numbers with commas between them. */
static bool set_raw(struct rnic_options *o, const char *value)
{
    uint64_t raw[RNIC_CARD_MAX_FUNCTIONS / 64] = {0};
    const char *at = value;
    do {
        char digits[8];
        uint64_t number;
        size_t length = strcspn(at, ",");
        snprintf(digits, sizeof(digits), "%.*s", (int)(length < sizeof(digits) ? length : sizeof(digits)),
                 at);
        if (length >= sizeof(digits) || !parse_number(digits, 0, RNIC_CARD_MAX_FUNCTIONS - 1, &number)) {
            return false;
        }
        raw[number / 64] |= UINT64_C(1) << number % 64;
        at += length;
    } while (*at++ == ',');
    memcpy(o->adapter.card.raw, raw, sizeof(raw));
    return true;
}

static bool set_linger(struct rnic_options *o, const char *value)
{
    o->adapter.lingers = value == NULL;
    return value == NULL;
}

struct option {
    const char *name;
    /* NULL: one that ends the reading, with `ends` */
    bool (*set)(struct rnic_options *options, const char *value);
    enum rnic_option_result ends;
    bool has_value;
};
static const struct option known[] = {
    {"socket", set_socket, RNIC_OPTIONS_RUN, true},     {"dir", set_folder, RNIC_OPTIONS_RUN, true},
    {"bus", set_bus, RNIC_OPTIONS_RUN, true},           {"functions", set_functions, RNIC_OPTIONS_RUN, true},
    {"mac", set_mac, RNIC_OPTIONS_RUN, true},           {"mtu", set_mtu, RNIC_OPTIONS_RUN, true},
    {"dram", set_dram, RNIC_OPTIONS_RUN, true},         {"sram", set_sram, RNIC_OPTIONS_RUN, true},
    {"raw", set_raw, RNIC_OPTIONS_RUN, true},           {"profile", set_profile, RNIC_OPTIONS_RUN, true},
    {"seed", set_seed, RNIC_OPTIONS_RUN, true},         {"spin", set_spin, RNIC_OPTIONS_RUN, true},
    {"lifeline", set_lifeline, RNIC_OPTIONS_RUN, true}, {"wire", set_wire, RNIC_OPTIONS_RUN, true},
    {"impair", set_impair, RNIC_OPTIONS_RUN, true},     {"fault", set_fault, RNIC_OPTIONS_RUN, true},
    {"log", set_log, RNIC_OPTIONS_RUN, true},           {"record", set_record, RNIC_OPTIONS_RUN, true},
    {"stats", set_stats, RNIC_OPTIONS_RUN, false},      {"linger", set_linger, RNIC_OPTIONS_RUN, false},
    {"help", NULL, RNIC_OPTIONS_HELP, false},           {"version", NULL, RNIC_OPTIONS_VERSION, false}};

/* The option that the argument names, and the value behind its "=", or NULL. */
static const struct option *find_option(const char *argument, const char **value)
{
    size_t length = strcspn(argument, "=");
    *value = argument[length] == '=' ? argument + length + 1 : NULL;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (length > 2 && strncmp(argument, "--", 2) == 0 && strlen(known[i].name) == length - 2 &&
            strncmp(argument + 2, known[i].name, length - 2) == 0) {
            return &known[i];
        }
    }
    return NULL;
}

enum rnic_option_result rnic_options_read(struct rnic_options *options, int count, char **arguments,
                                          char *text, size_t size)
{
    for (int i = 1; i < count; i++) {
        const char *value;
        const struct option *option = find_option(arguments[i], &value);
        if (option == NULL) {
            snprintf(text, size, "there is no option %s", arguments[i]);
            return RNIC_OPTIONS_WRONG;
        }
        if (option->set == NULL) {
            return option->ends;
        }
        if (option->has_value && value == NULL && i + 1 < count) {
            value = arguments[++i];
        }
        if ((option->has_value && value == NULL) || !option->set(options, value)) {
            snprintf(text, size, "--%s: %s", option->name,
                     value == NULL ? "its value is missing" : "not such a value");
            return RNIC_OPTIONS_WRONG;
        }
    }
    return options->asks_stats ? RNIC_OPTIONS_STATS : RNIC_OPTIONS_RUN;
}
