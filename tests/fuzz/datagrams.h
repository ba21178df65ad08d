/* SPDX-License-Identifier: MIT */
/* What datagram endpoints of the libfabric provider say to each other. Checked in C, where their
 * headers are at home. */
#ifndef VIPL_FUZZ_DATAGRAMS_H
#define VIPL_FUZZ_DATAGRAMS_H

#include <stddef.h>
#include <stdint.h>

/* What is not as it should be, or NULL. `bytes` has room for exactly `length`. */
const char *fuzz_datagram_head(const uint8_t *bytes, size_t length);
const char *fuzz_datagram_name(const uint8_t *bytes, size_t length);
const char *fuzz_connection_hello(const uint8_t *bytes, size_t length);

#endif
