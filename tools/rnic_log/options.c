/* SPDX-License-Identifier: MIT */
/* The command line of vipl-rnic-log. */
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "read.h"
#include "rnic/registers.h"
#include "tool_options.h"
#include "tool_text.h"

static void print_help(void)
{
    puts(
        "usage: vipl-rnic-log [OPTION]... FILE\n"
        "       vipl-rnic-log --coverage [--json] FILE...\n"
        "       vipl-rnic-log --replay [--load FILE] [--until PLACE [--save FILE]] FILE\n"
        "       vipl-rnic-log --replay --card PATH [--wait SECONDS] [--until PLACE] FILE\n"
        "Reads the transaction log of an emulated RDMA card (vipl-rnicd --log): prints it, selects from it,\n"
        "turns it into another format, tells what of the card it has touched, or replays it.\n"
        "\n"
        "  -o, --output FILE     writes there: text if it ends in .txt, a waveform if it ends in .vcd, else\n"
        "                        pcapng (default: text on standard output)\n"
        "  -e, --explain         in words: the register's name, the ring's entry, the frame's header\n"
        "  -c, --coverage        which registers, commands, statuses, events, errors and transitions of\n"
        "                        queue pairs the logs have, and the names of those that none has\n"
        "  -j, --json            coverage as one JSON object\n"
        "  -r, --replay          lets a card do again what the card of a log of vipl-rnicd --record did, "
        "and\n"
        "                        names the first record that differs\n"
        "  -s, --save FILE       saves the card of a replay at the first call behind --until\n"
        "  -l, --load FILE       begins a replay with a card that was saved, on this CPU or another one\n"
        "  -C, --card PATH       replays it to the card behind this socket, RTL in a simulator or "
        "vipl-rnicd\n"
        "                        --bus, in that card's own time\n"
        "  -w, --wait SECONDS    how long that card may do nothing of what it should (default: 10)\n"
        "  -f, --from PLACE      from there on: seconds as the log has them; with + before them, after the\n"
        "                        first transaction; @N, the Nth transaction\n"
        "  -u, --until PLACE     up to and with that\n"
        "  -x, --until-failed    up to and with the first DMA that was refused\n"
        "  -F, --fn N[,N]...     of these functions\n"
        "  -k, --kind NAME[,NAME]...  of these kinds: register-read, dma-write, frame-sent, ...\n"
        "  -q, --qp N            of this queue pair: its doorbells, work entries and frames, and the\n"
        "                        commands, answers and completions about it\n"
        "  -V, --version         print the version and exit\n"
        "  -h, --help            print this and exit\n"
        "\n"
        "Exit code: 0, 1 when a log is damaged or cannot be read (what stands before the damage is there),\n"
        "2 for wrong usage, 3 when a replay differs.");
}

static const struct option long_options[] = {
    {"output", required_argument, NULL, 'o'}, {"explain", no_argument, NULL, 'e'},
    {"coverage", no_argument, NULL, 'c'},     {"json", no_argument, NULL, 'j'},
    {"replay", no_argument, NULL, 'r'},       {"save", required_argument, NULL, 's'},
    {"load", required_argument, NULL, 'l'},   {"card", required_argument, NULL, 'C'},
    {"wait", required_argument, NULL, 'w'},   {"from", required_argument, NULL, 'f'},
    {"until", required_argument, NULL, 'u'},  {"until-failed", no_argument, NULL, 'x'},
    {"fn", required_argument, NULL, 'F'},     {"kind", required_argument, NULL, 'k'},
    {"qp", required_argument, NULL, 'q'},     {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
};

/* Digits alone, which end with the text or before `stop`. */
static bool parse_digits(const char **text, char stop, uint64_t most, uint64_t *out)
{
    char *end;

    if (**text < '0' || **text > '9') {
        return false;
    }
    *out = strtoull(*text, &end, 10);
    *text = end;
    return *out <= most && (*end == '\0' || *end == stop);
}

/* Seconds with up to nine decimals, or @ and a number. */
static bool parse_place(const char *text, struct log_place *out)
{
    const uint64_t second = 1000000000;
    uint64_t seconds;
    uint64_t rest = 0;

    *out = (struct log_place){.is_set = true, .is_relative = text[0] == '+'};
    if (text[0] == '@') {
        text++;
        return parse_digits(&text, '\0', UINT64_MAX - 1, &out->number) && out->number > 0;
    }
    text += out->is_relative ? 1 : 0;
    if (!parse_digits(&text, '.', UINT64_MAX / second - 1, &seconds)) {
        return false;
    }
    if (*text == '.') {
        const char *digits = ++text;
        if (!parse_digits(&text, '\0', second - 1, &rest) || text - digits > 9) {
            return false;
        }
        for (long i = text - digits; i < 9; i++) {
            rest *= 10;
        }
    }
    out->ns = seconds * second + rest;
    return true;
}

static bool parse_functions(const char *text, struct log_options *options)
{
    uint64_t fn;

    options->some_functions = true;
    while (parse_digits(&text, ',', RNIC_CARD_MAX_FUNCTIONS - 1, &fn)) {
        options->functions[fn] = true;
        if (*text == '\0') {
            return true;
        }
        text++;
    }
    return false;
}

static bool parse_kinds(const char *text, uint32_t *kinds)
{
    *kinds = 0;
    for (;;) {
        size_t length = strcspn(text, ",");
        int kind = log_kind_named(text, length);
        if (kind < 0) {
            return false;
        }
        *kinds |= 1u << kind;
        if (text[length] == '\0') {
            return true;
        }
        text += length + 1;
    }
}

static bool parse_qp(const char *text, int64_t *qp)
{
    uint64_t number;

    if (!parse_digits(&text, '\0', RNIC_QP_LIMIT - 1, &number)) {
        return false;
    }
    *qp = (int64_t)number;
    return true;
}

static bool parse_wait(const char *text, unsigned *ms)
{
    enum { MOST_S = 86400 };
    uint64_t seconds;

    if (!parse_digits(&text, '\0', MOST_S, &seconds)) {
        return false;
    }
    *ms = (unsigned)seconds * 1000;
    return seconds > 0;
}

/* False: it is another way to write the output already. */
static bool set_what(struct log_options *options, enum log_output what)
{
    bool first = options->what == LOG_AS_LOG || options->what == what;
    options->what = what;
    return first;
}

static bool take(void *into, int option)
{
    struct log_options *options = into;

    switch (option) {
    case 'o':
        options->output = optarg;
        return optarg[0] != '\0';
    case 'e':
        return set_what(options, LOG_AS_WORDS);
    case 'c':
        return set_what(options, LOG_AS_COVERAGE);
    case 'r':
        return set_what(options, LOG_AS_REPLAY);
    case 's':
        options->save = optarg;
        return optarg[0] != '\0';
    case 'l':
        options->load = optarg;
        return optarg[0] != '\0';
    case 'C':
        options->card = optarg;
        return optarg[0] != '\0';
    case 'w':
        return parse_wait(optarg, &options->wait_ms);
    case 'j':
        options->json = true;
        return true;
    case 'f':
        return parse_place(optarg, &options->from);
    case 'u':
        return parse_place(optarg, &options->until);
    case 'x':
        options->until_failed = true;
        return true;
    case 'F':
        return parse_functions(optarg, options);
    case 'k':
        return parse_kinds(optarg, &options->kinds);
    default:
        return parse_qp(optarg, &options->qp);
    }
}

static bool ends_in(const char *text, const char *end)
{
    size_t length = strlen(text);
    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

/* Whether something is left out of what --until leaves, or is to be written. */
static bool selects(const struct log_options *options)
{
    return options->from.is_set || options->until_failed || options->some_functions ||
           options->kinds != UINT32_MAX || options->qp >= 0 || options->output != NULL;
}

static const char *wrong_replay(const struct log_options *options)
{
    if (options->what != LOG_AS_REPLAY) {
        bool is_for_replay =
            options->save != NULL || options->load != NULL || options->card != NULL || options->wait_ms != 0;
        return is_for_replay ? "--save, --load, --card and --wait are for --replay alone" : NULL;
    }
    if (options->card != NULL ? options->save != NULL || options->load != NULL : options->wait_ms != 0) {
        return "a card behind a socket is not saved, and no other one is waited for";
    }
    if (selects(options)) {
        return "a replay is of a whole log, or of its beginning (--until)";
    }
    return options->save != NULL && !options->until.is_set ? "--save needs --until" : NULL;
}

static const char *wrong_usage(const struct log_options *options)
{
    if (options->count == 0) {
        return "a log is missing";
    }
    if (options->count > 1 && options->what != LOG_AS_COVERAGE) {
        return "several logs are for --coverage alone";
    }
    if (options->json && options->what != LOG_AS_COVERAGE) {
        return "--json is for --coverage alone";
    }
    return wrong_replay(options);
}

int log_parse(int argc, char **argv, struct log_options *options)
{
    static const struct tool_command command = {"o:ecjrs:l:C:w:f:u:xF:k:q:Vh", long_options, print_help,
                                                take};
    int code;
    const char *wrong;

    *options = (struct log_options){.kinds = UINT32_MAX, .qp = -1};
    code = tool_parse_options(argc, argv, &command, options);
    if (code >= 0) {
        return code;
    }
    options->files = argv + optind;
    options->count = argc - optind;
    wrong = wrong_usage(options);
    if (wrong != NULL) {
        tool_complain("%s; see --help", wrong);
        return TOOL_USAGE;
    }
    if (options->wait_ms == 0) {
        options->wait_ms = 10000;
    }
    if (options->what == LOG_AS_LOG && options->output != NULL && ends_in(options->output, ".vcd")) {
        options->what = LOG_AS_VCD;
    }
    return -1;
}
