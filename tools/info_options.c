/* SPDX-License-Identifier: MIT */
/* vipl-info's command line, and the list of devices it asks for. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "info.h"
#include "tool_text.h"

bool info_add_device(struct info_options *options, const char *name, size_t length)
{
    for (size_t i = 0; i < options->device_count; i++) {
        if (strlen(options->devices[i]) == length && memcmp(options->devices[i], name, length) == 0) {
            return true;
        }
    }
    if (length >= INFO_NAME_BYTES || options->device_count == INFO_MAX_DEVICES) {
        return false;
    }
    memcpy(options->devices[options->device_count], name, length);
    options->devices[options->device_count++][length] = '\0';
    return true;
}

static void print_help(void)
{
    puts("usage: vipl-info [--device NAME] [--json]\n"
         "Lists the VIPL devices of this machine, their attributes and limits, and how the library\n"
         "was built.\n"
         "\n"
         "  -d, --device NAME  only this device (default: each that the library knows here,\n"
         "                     interfaces of tcp and aliases included)\n"
         "  -j, --json         one JSON object\n"
         "  -V, --version      print the version and exit\n"
         "  -h, --help         print this and exit\n"
         "\n"
         "Exit code: 0, 1 when no device opens, 2 for wrong usage.");
}

static const struct option long_options[] = {
    {"device", required_argument, NULL, 'd'},
    {"json", no_argument, NULL, 'j'},
    {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

int info_parse(int argc, char **argv, struct info_options *options)
{
    int option;

    memset(options, 0, sizeof(*options));
    while ((option = getopt_long(argc, argv, "d:jVh", long_options, NULL)) != -1) {
        switch (option) {
        case 'd':
            if (!info_add_device(options, optarg, strlen(optarg))) {
                tool_complain("the name of a device is too long, or there are too many");
                return TOOL_USAGE;
            }
            break;
        case 'j':
            options->json = true;
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
    if (optind < argc) {
        tool_complain("unexpected argument \"%s\"", argv[optind]);
        return TOOL_USAGE;
    }
    return -1;
}
