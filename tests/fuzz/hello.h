/* SPDX-License-Identifier: MIT */
/* What the backends say to their like before a connection is one. Checked in C, where their headers
 * are at home. */
#ifndef VIPL_FUZZ_HELLO_H
#define VIPL_FUZZ_HELLO_H

#include <stddef.h>
#include <stdint.h>

/* What is not as it should be, or NULL. `bytes` has room for exactly `length`. */
const char *fuzz_loopback_request(const uint8_t *bytes, size_t length);
const char *fuzz_loopback_reply(const uint8_t *bytes, size_t length);
const char *fuzz_loopback_notice(const uint8_t *bytes, size_t length);
const char *fuzz_tcp_request(const uint8_t *bytes, size_t length);

#endif
