/* SPDX-License-Identifier: MIT */
/* Command lines; see tool_options.h. */
#include "tool_options.h"

#include <string.h>

#include "tool_text.h"
#include "tool_vipl.h"

int tool_parse_options(int argc, char **argv, const struct tool_command *command, void *into)
{
    int option;

    while ((option = getopt_long(argc, argv, command->short_options, command->names, NULL)) != -1) {
        if (option == 'V') {
            tool_print_version();
            return TOOL_OK;
        }
        if (option == 'h') {
            command->print_help();
            return TOOL_OK;
        }
        if (option == '?') {
            return TOOL_USAGE;
        }
        if (!command->take(into, option)) {
            tool_complain("wrong option or value: -%c %s", option, optarg != NULL ? optarg : "");
            return TOOL_USAGE;
        }
    }
    return -1;
}

bool tool_parse_discriminator(const char *text, const char **discriminator)
{
    *discriminator = text;
    return text[0] != '\0' && strlen(text) <= TOOL_DISCRIMINATOR_BYTES;
}
