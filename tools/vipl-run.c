/* SPDX-License-Identifier: MIT */
/*
 * vipl-run: runs a program whose TCP connections are moved to VIPL.
 *
 * Loads libvipl-sockets.so before the program's own libraries, by LD_PRELOAD, and becomes the
 * program: exit codes, signals and the process are the program's own. Says beforehand where the
 * library cannot be loaded, and runs the program without it. With --stats-of, prints the counts of
 * a running program and runs nothing.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run.h"
#include "tool_text.h"

/* As a shell has them. */
enum { RUN_CANNOT_RUN = 126, RUN_NOT_FOUND = 127 };

struct options {
    bool stats;
    const char *stats_of;
    const char *rules;
    const char *device;
};

static void print_help(void)
{
    puts("usage: vipl-run [OPTION]... PROGRAM [ARGUMENT]...\n"
         "       vipl-run --stats-of PID\n"
         "Runs a program whose TCP connections are moved to VIPL where the other end runs so too.\n"
         "\n"
         "  -s, --stats         at its end, each process says what became of its connections\n"
         "  -S, --stats-of PID  say that of a running process, and run nothing\n"
         "  -r, --rules FILE    which connections are moved (default: all of this host)\n"
         "  -d, --device NAME   the VIPL device (default: loopback)\n"
         "  -V, --version       print the version and exit\n"
         "  -h, --help          print this and exit\n"
         "\n"
         "Exit code: the program's; 2 for wrong usage, 126 if the program cannot be run, 127 if\n"
         "there is none. Of --stats-of: 0, or 1 if that process has no counts.");
}

static const struct option long_options[] = {
    {"stats", no_argument, NULL, 's'},
    {"stats-of", required_argument, NULL, 'S'},
    {"rules", required_argument, NULL, 'r'},
    {"device", required_argument, NULL, 'd'},
    {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* The exit code, or -1 if there is more to do. The program's own options stay. */
static int parse(int argc, char **argv, struct options *options)
{
    int option;
    while ((option = getopt_long(argc, argv, "+sS:r:d:Vh", long_options, NULL)) != -1) {
        switch (option) {
        case 's':
            options->stats = true;
            break;
        case 'S':
            options->stats_of = optarg;
            break;
        case 'r':
            options->rules = optarg;
            break;
        case 'd':
            options->device = optarg;
            break;
        case 'V':
            tool_print_version();
            return TOOL_OK;
        case 'h':
            print_help();
            return TOOL_OK;
        default:
            return TOOL_USAGE;
        }
    }
    if (options->stats_of != NULL && optind < argc) {
        tool_complain("--stats-of runs no program");
        return TOOL_USAGE;
    }
    if (options->stats_of == NULL && optind == argc) {
        tool_complain("which program? (--help says more)");
        return TOOL_USAGE;
    }
    return -1;
}

static int print_stats(const char *text)
{
    uint64_t process;
    if (!tool_parse_number(text, 1, INT_MAX, &process)) {
        tool_complain("\"%s\" is not the number of a process", text);
        return TOOL_USAGE;
    }
    return run_print_stats((unsigned)process);
}

/* The program may have another working directory when it reads the file. */
static bool set_rules(const char *rules)
{
    char path[PATH_MAX];
    if (realpath(rules, path) == NULL || access(path, R_OK) != 0) {
        tool_complain("the rules \"%s\" cannot be read: %s", rules, strerror(errno));
        return false;
    }
    return setenv("VIPL_SOCKETS_RULES", path, 1) == 0;
}

static bool set_preload(const char *library)
{
    const char *before = getenv("LD_PRELOAD");
    char *list = NULL;
    bool set = before == NULL || before[0] == '\0'
                   ? setenv("LD_PRELOAD", library, 1) == 0
                   : asprintf(&list, "%s:%s", library, before) > 0 && setenv("LD_PRELOAD", list, 1) == 0;
    free(list);
    return set;
}

/* The environment that the library reads. */
static bool prepare(const struct options *options)
{
    char process[16];
    snprintf(process, sizeof(process), "%ld", (long)getpid()); /* the program's, after exec */
    bool set = (!options->stats || setenv("VIPL_SOCKETS_STATS", process, 1) == 0) &&
               (options->device == NULL || setenv("VIPL_SOCKETS_DEVICE", options->device, 1) == 0);
    if (!set) {
        tool_complain("no memory");
    }
    return set && (options->rules == NULL || set_rules(options->rules));
}

int main(int argc, char **argv)
{
    static struct options options;
    char library[PATH_MAX];
    char program[PATH_MAX];
    char why[RUN_WHY_BYTES];

    tool_name = "vipl-run";
    int code = parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    if (options.stats_of != NULL) {
        return print_stats(options.stats_of);
    }
    if (!prepare(&options)) {
        return TOOL_USAGE;
    }
    char **arguments = argv + optind;
    if (!run_find_program(arguments[0], program)) {
        tool_complain("%s: %s", arguments[0], strerror(errno));
        return errno == ENOENT ? RUN_NOT_FOUND : RUN_CANNOT_RUN;
    }
    if (!run_can_help(program, why) || !run_find_library(library, why)) {
        tool_complain("all connections of %s stay with TCP: %s", arguments[0], why);
    } else if (!set_preload(library)) {
        tool_complain("all connections of %s stay with TCP: no memory", arguments[0]);
    }
    execv(program, arguments);
    tool_complain("%s: %s", program, strerror(errno));
    return RUN_CANNOT_RUN;
}
