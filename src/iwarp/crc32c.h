/* SPDX-License-Identifier: MIT */
/* CRC32C (Castagnoli, reflected; RFC 3720 appendix B.4), with which MPA ends an FPDU. */
#ifndef VIPL_IWARP_CRC32C_H
#define VIPL_IWARP_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continues a CRC: `crc` is that of the bytes before (0: there are none). Uses the processor's
 * instruction if it has one. */
uint32_t vipl_crc32c(uint32_t crc, const void *bytes, size_t length);
/* The same by tables alone, for machines without the instruction, and for tests. */
uint32_t vipl_crc32c_table(uint32_t crc, const void *bytes, size_t length);

#endif
