/* SPDX-License-Identifier: MIT */
/*
 * Settings: the environment first, then a file of `NAME = value` lines (VIPL_CONFIG, else
 * /etc/vipl.conf; '#' starts a comment). Read when a NIC handle is opened.
 */
#ifndef VIPL_BASE_CONFIG_H
#define VIPL_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The value of `name` into text[size], cut to fit. False, and "" there: it is not set. */
bool vipl_config_text(const char *name, char *text, size_t size);
/* A number within [min, max]. Anything else is logged, and `otherwise` is returned. */
uint32_t vipl_config_number(const char *name, uint32_t otherwise, uint32_t min, uint32_t max);
/* Whether the comma-separated list `name` has `word`. */
bool vipl_config_has_word(const char *name, const char *word);

#endif
