/* SPDX-License-Identifier: MIT */
/* Numbers of the NVM Express base specification, 1.4 and later. Everything is little-endian. */
#ifndef VIPL_DM_NVME_REGISTERS_H
#define VIPL_DM_NVME_REGISTERS_H

#include <stdint.h>

/* Registers: offsets in BAR0. */
enum {
    NVME_CAP = 0x00, /* 8 bytes */
    NVME_VS = 0x08,
    NVME_CC = 0x14,
    NVME_CSTS = 0x1C,
    NVME_AQA = 0x24,
    NVME_ASQ = 0x28,    /* 8 bytes */
    NVME_ACQ = 0x30,    /* 8 bytes */
    NVME_CMBLOC = 0x38, /* of the controller memory buffer, as the next three */
    NVME_CMBSZ = 0x3C,
    NVME_CMBMSC = 0x50, /* 8 bytes */
    NVME_CMBSTS = 0x58,
    NVME_DOORBELLS = 0x1000
};

/* CAP, its two halves. */
#define NVME_CAP_MQES(low) ((low)&0xFFFFU)          /* entries of a queue, less one */
#define NVME_CAP_TO(low) ((low) >> 24 & 0xFFU)      /* units of 500 ms */
#define NVME_CAP_DSTRD(high) ((high)&0xFU)          /* doorbells are 4 << DSTRD bytes apart */
#define NVME_CAP_NVM(high) ((high) >> 5 & 1U)       /* the NVM command set */
#define NVME_CAP_MPSMIN(high) ((high) >> 16 & 0xFU) /* pages have 4096 << MPSMIN bytes at least */
#define NVME_CAP_CMBS(high) ((high) >> 25 & 1U)     /* CMBMSC is there */

/* CC: enabled, pages of 4,096 bytes, entries of 64 and 16 bytes. */
#define NVME_CC_ENABLE UINT32_C(1)
#define NVME_CC_ENTRIES (UINT32_C(6) << 16 | UINT32_C(4) << 20)

#define NVME_CSTS_READY UINT32_C(1)
#define NVME_CSTS_FATAL UINT32_C(2)

#define NVME_CMBLOC_BIR(word) ((word)&7U)
#define NVME_CMBLOC_OFST(word) ((word) >> 12)      /* in units */
#define NVME_CMBSZ_READS(word) ((word) >> 3 & 1U)  /* it may have the data of reads */
#define NVME_CMBSZ_WRITES(word) ((word) >> 4 & 1U) /* and of writes */
#define NVME_CMBSZ_UNIT(word) ((word) >> 8 & 0xFU) /* units have 4096 << 4 * UNIT bytes */
#define NVME_CMBSZ_SZ(word) ((word) >> 12)         /* in units */
#define NVME_CMBMSC_REGISTERS UINT32_C(1)          /* CMBLOC and CMBSZ say something */
#define NVME_CMBMSC_SPACE UINT32_C(2)              /* the memory has the address of the upper bits */
#define NVME_CMBSTS_BAD_ADDRESS UINT32_C(1)

/* A command: offsets in an entry of a submission queue. */
enum {
    NVME_ENTRY_BYTES = 64,
    NVME_ENTRY_OPCODE = 0,
    NVME_ENTRY_ID = 2,
    NVME_ENTRY_NAMESPACE = 4,
    NVME_ENTRY_PRP1 = 24,
    NVME_ENTRY_PRP2 = 32,
    NVME_ENTRY_WORD10 = 40,
    NVME_ENTRY_WORD11 = 44,
    NVME_ENTRY_WORD12 = 48
};

/* Its end: offsets in an entry of a completion queue. */
enum { NVME_ANSWER_BYTES = 16, NVME_ANSWER_ID = 12, NVME_ANSWER_STATUS = 14 };

enum nvme_admin { NVME_CREATE_SQ = 1, NVME_CREATE_CQ = 5, NVME_IDENTIFY = 6, NVME_SET_FEATURES = 9 };
enum nvme_io { NVME_FLUSH = 0, NVME_WRITE = 1, NVME_READ = 2 };

enum { NVME_IDENTIFY_NAMESPACE = 0, NVME_IDENTIFY_CONTROLLER = 1, NVME_FEATURE_QUEUES = 7 };

/* The answers of Identify, of 4,096 bytes. */
enum {
    NVME_CONTROLLER_MODEL = 24, /* 40 characters */
    NVME_CONTROLLER_MDTS = 77,
    NVME_CONTROLLER_SQES = 512, /* the entries that are needed, as a power of two in four bits */
    NVME_CONTROLLER_CQES = 513,
    NVME_CONTROLLER_VWC = 525,
    NVME_NAMESPACE_BLOCKS = 0,
    NVME_NAMESPACE_FLBAS = 26,
    NVME_NAMESPACE_FORMATS = 128 /* 4 bytes each: 0 metadata (2), 2 the block as a power of two */
};

/* A status without phase, retry and more: type (3 bits) and code (8 bits). */
#define NVME_STATUS(word) ((word) >> 1 & 0x7FFU)
enum { NVME_STATUS_PROTECTED = 0x20, NVME_STATUS_OUT_OF_RANGE = 0x80 };

#endif
