/* SPDX-License-Identifier: MIT */
/* The option parsers of the tools that are C. */
#ifndef FUZZ_COMMAND_LINE_H
#define FUZZ_COMMAND_LINE_H

/* NULL, or what is wrong with what the parser has let through. argv ends with NULL. */
const char *fuzz_perf_options(int argc, char **argv);
const char *fuzz_ping_options(int argc, char **argv);
const char *fuzz_info_options(int argc, char **argv);

#endif
