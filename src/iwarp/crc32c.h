/* SPDX-License-Identifier: MIT */
/* CRC32C (Castagnoli, reflected; RFC 3720 appendix B.4), as MPA ends an FPDU with it. */
#ifndef VIPL_IWARP_CRC32C_H
#define VIPL_IWARP_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The CRC of what `crc` is the CRC of (0: nothing yet), followed by these bytes. Uses the processor's
 * instruction where there is one. */
uint32_t vipl_crc32c(uint32_t crc, const void *bytes, size_t length);
/* The same by table alone: what machines without the instruction run, and tests compare with. */
uint32_t vipl_crc32c_table(uint32_t crc, const void *bytes, size_t length);

#endif
