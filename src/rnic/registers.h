/* SPDX-License-Identifier: MIT */
/*
 * Made by tools/rnic_registers.py from registers.json: change that. docs/rnic/hardware.md
 * explains it.
 */
#ifndef RNIC_REGISTERS_H
#define RNIC_REGISTERS_H

/* clang-format off */

/* Numbers */
enum {
    RNIC_PCI_VENDOR = 0x5650, /* PCI vendor number */
    RNIC_PCI_DEVICE = 0x0101, /* PCI device number */
    RNIC_PCI_CLASS = 0x028000, /* network controller, other */
    RNIC_ID_VALUE = 0x4E524956, /* what ID reads: the characters VIRN */
    /*
     * MSI-X vectors of a function; vector 0 is for events and commands, the others are for
     * completion queues
     */
    RNIC_VECTORS = 16,
    RNIC_BAR0_BYTES = 0x200000, /* control, trapped; not prefetchable */
    RNIC_BAR2_BYTES = 0x1000000, /* doorbells, mapped whole */
    RNIC_MSIX_TABLE = 0x2000, /* offset of the MSI-X table in BAR0, 16 bytes for each vector */
    RNIC_MSIX_PBA = 0x3000, /* offset of the pending bits in BAR0 */
    RNIC_COMMAND_BYTES = 64, /* size of a command */
    RNIC_WORK_BYTES = 64, /* size of a work entry */
    RNIC_COMPLETION_BYTES = 32, /* size of a completion entry, and of the answer to a command */
    RNIC_EVENT_BYTES = 512, /* size of an event */
    RNIC_SEGMENT_BYTES = 16, /* size of a segment */
    RNIC_INLINE_SEGMENTS = 2, /* segments that a work entry itself has room for */
    RNIC_SEGMENT_LIMIT = 252, /* segments of one work entry */
    /* limit of the layout of BAR2, for queue pairs and for completion queues */
    RNIC_QP_LIMIT = 65536,
    RNIC_GROUP = 64, /* doorbells that share a hint byte */
    /* as a function number: the adapter itself, which finds the listener */
    RNIC_FUNCTION_ADAPTER = 0xFFFF,
    RNIC_CONTROL_PAYLOAD = 448, /* most bytes that follow the header of a control message */
    RNIC_MAX_DISCRIMINATOR = 64, /* most bytes of a discriminator */
    RNIC_WINDOWS = 1024, /* windows of a function */
    RNIC_WINDOW_BYTES = 4096, /* size of a window */
    RNIC_WINDOW_SLOTS = 8, /* slots of a window */
    RNIC_WINDOW_SLOT_BYTES = 512, /* size of a slot */
    RNIC_WINDOW_HEADER = 48, /* bytes of a slot before the payload */
    RNIC_WINDOW_PAYLOAD = 464, /* most bytes of payload in a slot */
    RNIC_AOTF_PAGES = 256, /* pages of the AOTF space of a function */
    RNIC_AOTF_PAGE_BYTES = 4096, /* size of such a page */
    RNIC_AOTF_STORES = 64 /* stores into the AOTF space that wait to be sent, at most */
};

/*
 * BAR0: Control registers: 32 bits each, little-endian always, to be accessed as aligned 32-bit
 * words. What is not listed reads as 0 and ignores stores.
 */
enum {
    RNIC_REG_ID = 0x000, /* ro; Identifies the card. */
    /* ro; Version of this data sheet: major in the upper 16 bits, minor in the lower. */
    RNIC_REG_VERSION = 0x004,
    RNIC_REG_CAPS = 0x008, /* ro; What the card can do. */
    /* Doorbells are watched by hardware: hints, ASLEEP and WAKE have no meaning. */
    RNIC_CAPS_NEVER_SLEEPS = 0x1,
    RNIC_CAPS_BOTF = 0x2, /* Programmed I/O: BAR2 has windows. */
    RNIC_CAPS_AOTF = 0x4, /* Programmed I/O by single stores: BAR0 has the AOTF space. */
    RNIC_CAPS_DEVICE_MEMORY = 0x8, /* There is device memory, BAR4. */
    RNIC_CAPS_BIG_ENDIAN = 0x10, /* CTRL.BYTE_ORDER may be set; always 1. */
    RNIC_CAPS_RAW = 0x20, /* This function may have queue pairs of the level RAW. */
    RNIC_REG_MAX_QPS = 0x00C, /* ro; Queue pairs of the card, all functions together. */
    RNIC_REG_MAX_CQS = 0x010, /* ro; Completion queues, likewise. */
    RNIC_REG_MAX_STAGS = 0x014, /* ro; Steering tags, likewise. */
    RNIC_REG_MAX_PBL = 0x018, /* ro; Entries of the physical buffer list table, likewise. */
    RNIC_REG_MAX_LISTENS = 0x01C, /* ro; Entries of the listen table, likewise. */
    RNIC_REG_MAX_WORK = 0x020, /* ro; Largest work ring, as a power of two. */
    RNIC_REG_MAX_COMPLETIONS = 0x024, /* ro; Largest completion ring, as a power of two. */
    RNIC_REG_MAX_SEGMENTS = 0x028, /* ro; Segments of one work entry. */
    RNIC_REG_MAX_TRANSFER = 0x02C, /* ro; Bytes of one message. */
    RNIC_REG_MTU = 0x030, /* ro; Payload bytes of an Ethernet frame on the card's wire. */
    RNIC_REG_READ_SLOTS = 0x034, /* ro; RDMA Reads of a queue pair at once. */
    RNIC_READ_SLOTS_IRD_SHIFT = 0, /* Inbound. */
    RNIC_READ_SLOTS_IRD_MASK = 0xFFFF, /* of the field */
    RNIC_READ_SLOTS_ORD_SHIFT = 16, /* Outbound. */
    RNIC_READ_SLOTS_ORD_MASK = 0xFFFF, /* of the field, when it has been shifted */
    RNIC_REG_DRAM_BYTES = 0x038, /* ro; Device memory of the function, from offset 0 of BAR4 on. */
    RNIC_REG_SRAM_BYTES = 0x03C, /* ro; Low-latency device memory, behind it. */
    RNIC_REG_CTRL = 0x040, /* rw; Control. */
    /*
     * The function works. Ring bases and the byte order are taken over when it is set, and
     * cannot be changed while it is.
     */
    RNIC_CTRL_ENABLE = 0x1,
    RNIC_CTRL_RESET = 0x2, /* Written as 1: function reset. Reads as 0. */
    /*
     * 1: big-endian rings, lists, events, completions and doorbells. Writable only while ENABLE
     * is 0.
     */
    RNIC_CTRL_BYTE_ORDER = 0x4,
    /*
     * 1: answers to commands fire no interrupt: the driver looks at the answer ring by itself.
     * Writable only while ENABLE is 0.
     */
    RNIC_CTRL_QUIET = 0x8,
    RNIC_REG_STATUS = 0x044, /* ro; State of the function. */
    RNIC_STATUS_READY = 0x1, /* Reset is over. */
    RNIC_STATUS_ENABLED = 0x2, /* The function works. */
    /*
     * The driver broke a rule that the card cannot contain; only reset helps. ERROR_CODE says
     * which.
     */
    RNIC_STATUS_CATASTROPHIC = 0x4,
    RNIC_STATUS_LINK_UP = 0x8, /* The wire carries frames. */
    /* ro; The first error since ERROR_COUNT was cleared: a value of ERROR. */
    RNIC_REG_ERROR_CODE = 0x048,
    /* ro; The number of the queue pair, completion queue or tag that it was about. */
    RNIC_REG_ERROR_OBJECT = 0x04C,
    /* ro; The IOVA, if it was a DMA; the offset in BAR0, if it was a store into the AOTF space. */
    RNIC_REG_ERROR_ADDRESS_LO = 0x050,
    RNIC_REG_ERROR_ADDRESS_HI = 0x054, /* ro */
    RNIC_REG_ERROR_COUNT = 0x058, /* rwc; Errors since then; any store clears the error log. */
    /* rw1c; A bit per vector that has fired; a 1 that is stored clears its bit. */
    RNIC_REG_INT_CAUSE = 0x060,
    /*
     * rw; A bit per vector that does not fire: its pending bit is set, and it fires when the bit
     * is cleared.
     */
    RNIC_REG_INT_MASK = 0x064,
    /*
     * rw; Moderation: a vector fires at most once in this number of microseconds. An interrupt
     * is only delayed.
     */
    RNIC_REG_INT_DELAY_US = 0x068,
    /* rw; ... or at once after this number of events; 0: only the time counts. */
    RNIC_REG_INT_COUNT = 0x06C,
    /* ro; First four bytes of the card's address, the first in the lowest bits. */
    RNIC_REG_MAC_LO = 0x070,
    RNIC_REG_MAC_HI = 0x074, /* ro; The other two. */
    RNIC_REG_FUNCTION = 0x078, /* ro; The number of this function. */
    RNIC_FUNCTION_NUMBER_SHIFT = 0, /* This function. */
    RNIC_FUNCTION_NUMBER_MASK = 0xFFFF, /* of the field */
    RNIC_FUNCTION_COUNT_SHIFT = 16, /* Functions of the card. */
    RNIC_FUNCTION_COUNT_MASK = 0xFFFF, /* of the field, when it has been shifted */
    RNIC_REG_LINK_MBITS = 0x07C, /* ro; Rate of the wire; 0: not limited. */
    RNIC_REG_COMMAND_BASE_LO = 0x080, /* rw; IOVA of the command ring, a multiple of 64. */
    RNIC_REG_COMMAND_BASE_HI = 0x084, /* rw */
    RNIC_REG_COMMAND_LOG2 = 0x088, /* rw; Its entries, as a power of two: 2 to 12. */
    /* rw; IOVA of the answer ring, which has as many entries, a multiple of 64. */
    RNIC_REG_ANSWER_BASE_LO = 0x090,
    RNIC_REG_ANSWER_BASE_HI = 0x094, /* rw */
    RNIC_REG_EVENT_BASE_LO = 0x0A0, /* rw; IOVA of the event ring, a multiple of 64. */
    RNIC_REG_EVENT_BASE_HI = 0x0A4, /* rw */
    RNIC_REG_EVENT_LOG2 = 0x0A8, /* rw; Its entries, as a power of two: 2 to 12. */
    RNIC_REG_WAKE = 0x0C0, /* wo; Any store wakes the card. */
    RNIC_REG_QPS_USED = 0x0D0, /* ro; Queue pairs of this function. */
    RNIC_REG_CQS_USED = 0x0D4, /* ro; Completion queues of this function. */
    RNIC_REG_STAGS_USED = 0x0D8, /* ro; Steering tags of this function. */
    RNIC_REG_PBL_USED = 0x0DC, /* ro; Entries of the list table that this function's tags have. */
    /*
     * ro; Counters of this function, 64 bits each, lower half first: data frames sent, without
     * repetitions.
     */
    RNIC_REG_TX_FRAMES_LO = 0x100,
    RNIC_REG_TX_FRAMES_HI = 0x104, /* ro */
    RNIC_REG_RX_FRAMES_LO = 0x108, /* ro; Data frames received in order. */
    RNIC_REG_RX_FRAMES_HI = 0x10C, /* ro */
    RNIC_REG_TX_BYTES_LO = 0x110, /* ro; Payload bytes in them. */
    RNIC_REG_TX_BYTES_HI = 0x114, /* ro */
    RNIC_REG_RX_BYTES_LO = 0x118, /* ro */
    RNIC_REG_RX_BYTES_HI = 0x11C, /* ro */
    RNIC_REG_RESENT_LO = 0x120, /* ro; Frames sent again. */
    RNIC_REG_RESENT_HI = 0x124, /* ro */
    /* ro; Frames received for this function that were not valid, or of no queue pair. */
    RNIC_REG_DROPPED_LO = 0x128,
    RNIC_REG_DROPPED_HI = 0x12C, /* ro */
    RNIC_REG_DMA_READS_LO = 0x130, /* ro; DMA operations. */
    RNIC_REG_DMA_READS_HI = 0x134, /* ro */
    RNIC_REG_DMA_WRITES_LO = 0x138, /* ro */
    RNIC_REG_DMA_WRITES_HI = 0x13C, /* ro */
    RNIC_REG_DMA_FAILED_LO = 0x140, /* ro; DMA operations that were refused. */
    RNIC_REG_DMA_FAILED_HI = 0x144, /* ro */
    RNIC_REG_INTERRUPTS_LO = 0x148, /* ro; Interrupts that fired. */
    RNIC_REG_INTERRUPTS_HI = 0x14C, /* ro */
    RNIC_REG_COMMANDS_LO = 0x150, /* ro; Commands executed. */
    RNIC_REG_COMMANDS_HI = 0x154, /* ro */
    RNIC_REG_WAKES_LO = 0x158, /* ro; Stores to WAKE. */
    RNIC_REG_WAKES_HI = 0x15C, /* ro */
    /* ro; Time that the profile's costs of this function's requests add up to, in nanoseconds. */
    RNIC_REG_COST_NS_LO = 0x160,
    RNIC_REG_COST_NS_HI = 0x164, /* ro */
    /* ro; Ethernet frames for raw queue pairs that found no receive there. */
    RNIC_REG_RAW_MISSED_LO = 0x168,
    RNIC_REG_RAW_MISSED_HI = 0x16C, /* ro */
    /* ro; Stores into the AOTF space that found AOTF_STORES others waiting. */
    RNIC_REG_AOTF_OVERRUN_LO = 0x170,
    RNIC_REG_AOTF_OVERRUN_HI = 0x174, /* ro */
    /* ro; Stores into the AOTF space that were not sent for another reason. */
    RNIC_REG_AOTF_DROPPED_LO = 0x178,
    RNIC_REG_AOTF_DROPPED_HI = 0x17C, /* ro */
    /*
     * wo; The AOTF space: AOTF_PAGES pages, for stores of 1 to 8 bytes (section 7, Single
     * stores).
     */
    RNIC_REG_AOTF = 0x100000
};

/*
 * BAR2: Doorbells: memory that driver and card share, bytes and aligned 32-bit words in the
 * function's byte order.
 */
enum {
    RNIC_DB_ASLEEP = 0x0000, /* device; 1: the card sleeps, and needs WAKE. */
    RNIC_DB_COMMAND_PRODUCER = 0x0040, /* driver; Running index behind the last command posted. */
    RNIC_DB_EVENT_CONSUMER = 0x0080, /* driver; Running index of the next event to be taken. */
    /* device; Running count of the stores into the AOTF space that are over. */
    RNIC_DB_AOTF_DONE = 0x00C0,
    /*
     * both; 1,024 bytes: byte i is set by the driver after a doorbell of the queue pairs 64 i to
     * 64 i + 63 was written.
     */
    RNIC_DB_QP_HINTS = 0x10000,
    RNIC_DB_CQ_HINTS = 0x10400, /* both; 1,024 bytes: the same for completion queues. */
    RNIC_DB_QP = 0x400000, /* driver; 64 bytes for each queue pair: QP_DOORBELL below. */
    RNIC_DB_CQ = 0x800000, /* driver; 64 bytes for each completion queue: CQ_DOORBELL below. */
    RNIC_DB_WINDOWS = 0xC00000 /* driver; Pages of programmed I/O: WINDOW_SLOT below. */
};

/* QP_DOORBELL, 64 bytes: A queue pair's doorbell in BAR2. */
enum {
    RNIC_QPDB_SQ = 0, /* u32; Running index behind the last entry of the send queue. */
    RNIC_QPDB_RQ = 4, /* u32; The same of the receive queue. */
    /*
     * u32; Not 0: the driver holds receives for which the ring has no room yet. A message that
     * finds no receive waits.
     */
    RNIC_QPDB_RQ_HELD = 8
};

/* CQ_DOORBELL, 64 bytes: A completion queue's doorbell in BAR2. */
enum {
    RNIC_CQDB_CONSUMER = 0, /* u32; Running index of the next entry to be taken. */
    RNIC_CQDB_ARM = 4 /* u32; Counts requests for one interrupt: a changed value arms the queue. */
};

/*
 * WINDOW_SLOT, 48 bytes: The header of a slot: a copy of a work entry with one segment. The
 * payload follows.
 */
enum {
    RNIC_WINDOW_BEGIN = 0, /* u32; Running index behind the entry; stored first. */
    RNIC_WINDOW_END = 4, /* u32; The same; stored last. */
    RNIC_WINDOW_LENGTH = 8, /* u16; Bytes of the payload: 1 to WINDOW_PAYLOAD. */
    RNIC_WINDOW_OPCODE = 10, /* u8; A value of WORK: SEND or WRITE. */
    RNIC_WINDOW_FLAGS = 11, /* u8; Bits of WORK_FLAG, without LIST. */
    RNIC_WINDOW_COOKIE = 12, /* u32; Returned in the completion entry. */
    RNIC_WINDOW_IMMEDIATE = 16, /* u32; Immediate data, with the flag IMMEDIATE. */
    RNIC_WINDOW_REMOTE_STAG = 20, /* u32; WRITE: the peer's tag. */
    RNIC_WINDOW_REMOTE_ADDRESS = 24, /* u64; WRITE: the address in the peer's memory. */
    RNIC_WINDOW_LOCAL_ADDRESS = 32, /* u64; The segment's address. */
    RNIC_WINDOW_LOCAL_STAG = 40, /* u32; The segment's tag. */
    RNIC_WINDOW_ZERO = 44 /* u32; Zero. */
};

/* COMMAND, 64 bytes: A command: the common part. What follows depends on OPCODE. */
enum {
    RNIC_CMD_OPCODE = 0, /* u16; A value of COMMAND. */
    RNIC_CMD_OBJECT_KIND = 2, /* u16; Zero, but where a command says otherwise. */
    RNIC_CMD_COOKIE = 4, /* u32; Returned in the answer. */
    /* u32; The number of the queue pair or completion queue, or the tag, that it is about. */
    RNIC_CMD_OBJECT = 8
};

/*
 * CREATE_CQ and RESIZE_CQ, 64 bytes: A completion queue and its ring. The driver has filled the
 * ring's OWNER words with the running index of the next entry to be taken (0 for a new queue).
 * The answer to RESIZE_CQ has in INFO the running index from which on entries are in the new
 * ring.
 */
enum {
    RNIC_CMD_CQ_LOG2 = 12, /* u16; Entries, as a power of two: 2 to MAX_COMPLETIONS. */
    RNIC_CMD_CQ_VECTOR = 14, /* u16; MSI-X vector of its interrupts: 1 to 15. */
    RNIC_CMD_CQ_BASE = 16 /* u64; IOVA of the ring, a multiple of 64. */
};

/*
 * CREATE_QP and MODIFY_QP, 64 bytes: A queue pair. CREATE_QP uses what stands before STATE;
 * MODIFY_QP uses STATE and what the new state needs, and RIGHTS and DOMAIN at any time when
 * CHANGE has their bits.
 */
enum {
    RNIC_CMD_QP_REALM = 12, /* u16; The realm whose memory it may name. */
    RNIC_CMD_QP_LEVEL = 14, /* u8; A value of LEVEL. */
    /* u8; Remote access that it allows: bits of RIGHT. RAW: bits of FILTER. */
    RNIC_CMD_QP_RIGHTS = 15,
    RNIC_CMD_QP_DOMAIN = 16, /* u32; The protection domain; 0: any of the realm. */
    RNIC_CMD_QP_SEND_CQ = 20, /* u32; Completion queue of its sends. */
    RNIC_CMD_QP_RECV_CQ = 24, /* u32; Completion queue of its receives. */
    RNIC_CMD_QP_STATE = 28, /* u8; MODIFY_QP: the new state, a value of QP_STATE, or STATE_KEEP. */
    RNIC_CMD_QP_CHANGE = 29, /* u8; MODIFY_QP: bit 0: RIGHTS, bit 1: DOMAIN, bit 2: LEVEL. */
    RNIC_CMD_QP_IRD = 30, /* u8; To RECEIVE or CONNECTED: inbound RDMA Reads at once. */
    RNIC_CMD_QP_ORD = 31, /* u8; To RECEIVE or CONNECTED: outbound RDMA Reads at once. */
    RNIC_CMD_QP_PEER_MAC = 32, /* 6 bytes; To RECEIVE: the peer's card. */
    RNIC_CMD_QP_PEER_FUNCTION = 38, /* u16; To RECEIVE: the peer's function. */
    RNIC_CMD_QP_PEER_QP = 40, /* u32; To RECEIVE: the peer's queue pair. */
    /* u32; To RECEIVE: the longest message that is taken; 0: MAX_TRANSFER. */
    RNIC_CMD_QP_MAX_MESSAGE = 44
};

/*
 * SET_RING, 64 bytes: Gives a queue pair's send or receive queue its ring, or a larger one that
 * has the same entries at their running indices. OBJECT_KIND: 0 send queue, 1 receive queue. The
 * first one is given before the doorbell is written; the old one is the driver's again with the
 * answer.
 */
enum {
    RNIC_CMD_RING_LOG2 = 12, /* u16; Entries, as a power of two: 2 to MAX_WORK. */
    RNIC_CMD_RING_BASE = 16 /* u64; IOVA of the ring, a multiple of 64. */
};

/*
 * REGISTER and CHANGE_MR, 64 bytes: Registered memory. REGISTER: the answer has the new steering
 * tag in INFO. CHANGE_MR: DOMAIN and RIGHTS of the tag OBJECT become these; the answer comes
 * when all DMA that was begun under the old ones is over.
 */
enum {
    RNIC_CMD_MR_REALM = 12, /* u16; The realm that it belongs to. */
    /*
     * u8; Remote access allowed: bits of RIGHT. Bit 6, not in CHANGE_MR: device memory. Bit 7:
     * local writes are not allowed.
     */
    RNIC_CMD_MR_RIGHTS = 14,
    /* u8; Page size as a power of two: 12 to 30; 0: linear, there is no list. */
    RNIC_CMD_MR_PAGE_SHIFT = 15,
    RNIC_CMD_MR_DOMAIN = 16, /* u32; The protection domain, not 0. */
    RNIC_CMD_MR_PAGES = 20, /* u32; Entries of the list; 0: linear. */
    /* u64; The first byte's address, by which work entries and peers name it. */
    RNIC_CMD_MR_VIRTUAL = 24,
    RNIC_CMD_MR_LENGTH = 32, /* u64; Bytes. */
    /*
     * u64; Linear: the first byte's IOVA. DEVICE: its offset in BAR4. Otherwise the IOVA of the
     * list: 64-bit page addresses, one after the other.
     */
    RNIC_CMD_MR_IOVA = 40
};

/*
 * LISTEN and UNLISTEN, 64 bytes: The function takes connection requests for a discriminator.
 * OBJECT is what the driver knows it by, and is told with each request.
 */
enum {
    RNIC_CMD_LISTEN_LENGTH = 12, /* u16; Bytes of the discriminator: 0 to MAX_DISCRIMINATOR. */
    RNIC_CMD_LISTEN_ADDRESS = 16 /* u64; IOVA of the discriminator. */
};

/*
 * SEND_CONTROL, 64 bytes: Sends a control message: a header (CONTROL below) and what the driver
 * puts behind it. It is answered when it has been copied.
 */
enum {
    RNIC_CMD_CONTROL_LENGTH = 12, /* u16; Bytes, header included: 16 to 16 + CONTROL_PAYLOAD. */
    RNIC_CMD_CONTROL_ADDRESS = 16, /* u64; IOVA of the message. */
    RNIC_CMD_CONTROL_PEER_MAC = 32, /* 6 bytes; The card it goes to. */
    /* u16; The function, or FUNCTION_ADAPTER: REQUEST and CANCEL only. */
    RNIC_CMD_CONTROL_PEER_FUNCTION = 38
};

/* CLAIM, 64 bytes: Asks for a REQUEST that came: the first function to do so has it. */
enum {
    RNIC_CMD_CLAIM_PEER_MAC = 32, /* 6 bytes; The card that it came from. */
    RNIC_CMD_CLAIM_PEER_FUNCTION = 38, /* u16; The function. */
    RNIC_CMD_CLAIM_PEER_QP = 40, /* u32; SOURCE_QP of the request. */
    RNIC_CMD_CLAIM_SERIAL = 44 /* u32; SERIAL of the request. */
};

/*
 * SET_TEMPLATE, 64 bytes: What stores into a page of the AOTF space become: RDMA Writes of the
 * queue pair OBJECT. OBJECT_KIND: 0 the page has this template from now on, 1 it has none.
 */
enum {
    RNIC_CMD_TEMPLATE_PAGE = 12, /* u16; The page: 0 to AOTF_PAGES - 1. */
    RNIC_CMD_TEMPLATE_REMOTE_STAG = 16, /* u32; The peer's steering tag. */
    /* u64; The address in the peer's memory of the page's first byte. */
    RNIC_CMD_TEMPLATE_REMOTE_ADDRESS = 24
};

/* SEGMENT, 16 bytes: A piece of local memory. */
enum {
    RNIC_SEG_ADDRESS = 0, /* u64; Its address, by the numbers of VIRTUAL. */
    RNIC_SEG_LENGTH = 8, /* u32; Bytes; may be 0. */
    RNIC_SEG_STAG = 12 /* u32; The steering tag of the memory that it lies in. */
};

/* WORK, 64 bytes: An entry of a send or receive queue. */
enum {
    RNIC_WQE_OPCODE = 0, /* u8; A value of WORK. */
    RNIC_WQE_FLAGS = 1, /* u8; Bits of WORK_FLAG. */
    RNIC_WQE_SEGMENTS = 2, /* u16; How many. */
    RNIC_WQE_COOKIE = 4, /* u32; Returned in the completion entry. */
    RNIC_WQE_IMMEDIATE = 8, /* u32; Immediate data, a value. */
    RNIC_WQE_LENGTH = 12, /* u32; Bytes of all segments together. */
    RNIC_WQE_REMOTE_ADDRESS = 16, /* u64; RDMA: the address at the peer. RAW: the launch time. */
    RNIC_WQE_REMOTE_STAG = 24, /* u32; RDMA: the peer's steering tag. */
    RNIC_WQE_ZERO = 28, /* u32; Zero. */
    /*
     * 16 bytes; The first segment; with the flag LIST: the IOVA of the array of segments, 8
     * bytes.
     */
    RNIC_WQE_SEGMENT0 = 32,
    RNIC_WQE_SEGMENT1 = 48 /* 16 bytes; The second segment. */
};

/* COMPLETION, 32 bytes: An entry of a completion queue, or the answer to a command. */
enum {
    RNIC_CQE_QP = 0, /* u32; The queue pair. */
    RNIC_CQE_COOKIE = 4, /* u32; Of the work entry or command. */
    RNIC_CQE_LENGTH = 8, /* u32; Bytes moved. */
    /* u32; Immediate data, or the lower half of a time, if a flag says so. */
    RNIC_CQE_IMMEDIATE = 12,
    /* u8; The completed entry's OPCODE, or DRAINED; of a command the low byte of its OPCODE. */
    RNIC_CQE_OPCODE = 16,
    RNIC_CQE_FLAGS = 17, /* u8; Bits of CQE_FLAG. */
    RNIC_CQE_STATUS = 18, /* u16; A value of STATUS. */
    /* u32; Of a command: its result. Of work: the running index behind the entry in its queue. */
    RNIC_CQE_INFO = 20,
    /* u32; The upper half of a time, with the flag TIME; otherwise zero. */
    RNIC_CQE_TIME_HIGH = 24,
    /*
     * u32; The entry's running index in the ring, plus 1: the entry is there when this word says
     * so. Stored alone, last, with release order.
     */
    RNIC_CQE_OWNER = 28
};

/* EVENT, 512 bytes: An entry of the event ring. */
enum {
    RNIC_EVT_KIND = 0, /* u16; A value of EVENT. */
    RNIC_EVT_CODE = 2, /* u16; QP_ERROR: a value of ERROR. */
    RNIC_EVT_OBJECT = 4, /* u32; The queue pair; of a REQUEST the OBJECT of its LISTEN. */
    RNIC_EVT_PEER_MAC = 8, /* 6 bytes; CONTROL: where from. PEER_LOST: of what card. */
    RNIC_EVT_PEER_FUNCTION = 14, /* u16 */
    RNIC_EVT_LENGTH = 16, /* u32; CONTROL: bytes of the message. */
    /*
     * u32; Events of queue pairs that did not fit since the last entry, whose errors QUERY_QP
     * tells.
     */
    RNIC_EVT_MISSED = 20,
    RNIC_EVT_MESSAGE = 32, /* 464 bytes; CONTROL: the message, CONTROL below. */
    RNIC_EVT_OWNER = 508 /* u32; As of a completion entry. */
};

/* CONTROL, 16 bytes: The header of a control message; big-endian, as all that is on the wire. */
enum {
    RNIC_CTL_KIND = 0, /* u8; A value of CONTROL. */
    RNIC_CTL_REASON = 1, /* u8; REFUSED: a value of REFUSED; otherwise the drivers' affair. */
    /* u16; REQUEST and CANCEL: bytes of the discriminator, which follows the header. */
    RNIC_CTL_DISCRIMINATOR_LENGTH = 2,
    RNIC_CTL_SOURCE_QP = 4, /* u32; The sender's queue pair. */
    RNIC_CTL_DESTINATION_QP = 8, /* u32; The receiver's, if it is known. */
    RNIC_CTL_SERIAL = 12 /* u32; Tells attempts of one queue pair apart; answers repeat it. */
};

/*
 * EFE, 48 bytes: Behind the Ethernet header. Big-endian. The payload follows, and then the
 * CRC32C of all from the destination address on, its lowest byte first.
 */
enum {
    /* u8; Version 1 in the upper four bits; in the lower ones a value of EFE_TYPE. */
    RNIC_EFE_VERSION_TYPE = 0,
    RNIC_EFE_FLAGS = 1, /* u8; Bits of EFE_FLAG. */
    RNIC_EFE_PAYLOAD = 2, /* u16; Bytes of payload; Ethernet pads. */
    RNIC_EFE_SOURCE_FUNCTION = 4, /* u16; The sender's function. */
    /* u16; The receiver's; FUNCTION_ADAPTER: its adapter itself. */
    RNIC_EFE_DESTINATION_FUNCTION = 6,
    RNIC_EFE_EPOCH = 8, /* u32; The sender's, random at the start of a flow. */
    /*
     * u32; Number of this frame, if it is one that is repeated until it is acknowledged;
     * otherwise of the next one.
     */
    RNIC_EFE_SEQUENCE = 12,
    RNIC_EFE_NEXT = 16, /* u32; Number that the sender expects next: all before it have arrived. */
    RNIC_EFE_WINDOW = 20, /* u16; Frames from NEXT on that the sender has room for. */
    /* u16; Data and message acknowledgments: the receiver's queue pair. */
    RNIC_EFE_DESTINATION_QP = 22,
    RNIC_EFE_SOURCE_QP = 24, /* u16; The sender's. */
    RNIC_EFE_RESERVED = 26, /* u16; Zero. */
    RNIC_EFE_LEFT = 28, /* u32; Bytes of the message from this frame's on, this frame's included. */
    RNIC_EFE_MESSAGE = 32, /* u32; Number of the message in its queue pair. */
    RNIC_EFE_SENT = 36, /* u32; When it was sent, in microseconds of the sender's clock. */
    RNIC_EFE_ECHO = 40, /* u32; SENT of the last frame that was received, 0: none. */
    RNIC_EFE_HELD = 44 /* u32; Microseconds since that one came. */
};

/* Types of frames. */
enum {
    RNIC_EFE_TYPE_DATA = 1, /* A DDP segment. Numbered. */
    /*
     * 32 bytes of selective acknowledgment: bit 7 - (i mod 8) of byte i / 8 tells that frame
     * NEXT + i has arrived.
     */
    RNIC_EFE_TYPE_ACK = 2,
    RNIC_EFE_TYPE_CONTROL = 3, /* A control message. Numbered. */
    RNIC_EFE_TYPE_MESSAGE_ACK = 4, /* A message acknowledgment of 8 bytes. Numbered. */
    RNIC_EFE_TYPE_PROBE = 5, /* Asks for an ACK. */
    RNIC_EFE_TYPE_RESET = 6 /* The sender knows nothing of the flow (any more). */
};

/* Bits of FLAGS of a frame. */
enum {
    RNIC_EFE_FLAG_FIRST = 128, /* First frame of its message. */
    RNIC_EFE_FLAG_LAST = 64, /* Last frame of its message. */
    RNIC_EFE_FLAG_ACK_NOW = 32, /* The sender wants an ACK at once. */
    /*
     * The sender has not heard from the receiver in this life of the flow: NEXT, ECHO and HELD
     * say nothing.
     */
    RNIC_EFE_FLAG_NEW = 16
};

/* Commands. */
enum {
    RNIC_COMMAND_NOP = 0, /* Nothing, but its answer. */
    RNIC_COMMAND_CREATE_CQ = 1, /* The answer has the number in INFO. */
    RNIC_COMMAND_RESIZE_CQ = 2, /* A larger ring. */
    RNIC_COMMAND_DESTROY_CQ = 3, /* Refused (BUSY) while a queue pair names it. */
    /* The answer has the number in INFO. Its doorbell is cleared first. It is IDLE. */
    RNIC_COMMAND_CREATE_QP = 4,
    RNIC_COMMAND_MODIFY_QP = 5, /* Another state, rights or domain. */
    RNIC_COMMAND_SET_RING = 6, /* A ring for a queue. */
    RNIC_COMMAND_DESTROY_QP = 7, /* Refused (BUSY) but in IDLE and ERROR after DRAINED. */
    /*
     * The answer has STATE in INFO, the first error's code in LENGTH, and in IMMEDIATE the
     * running index of the next receive.
     */
    RNIC_COMMAND_QUERY_QP = 8,
    RNIC_COMMAND_REGISTER = 9, /* A steering tag. */
    RNIC_COMMAND_CHANGE_MR = 10, /* Other rights. */
    /* The tag OBJECT ends. The answer comes when all DMA that was begun under it is over. */
    RNIC_COMMAND_INVALIDATE = 11,
    /*
     * Other functions of the card may listen for the same discriminator: then CLAIM decides who
     * has a REQUEST.
     */
    RNIC_COMMAND_LISTEN = 12,
    RNIC_COMMAND_UNLISTEN = 13, /* The requests for it that are queued are answered REFUSED. */
    RNIC_COMMAND_SEND_CONTROL = 14, /* A control message. */
    RNIC_COMMAND_CLAIM = 15, /* IN_USE: another function has that REQUEST. */
    /* The queue pair OBJECT has a window from now on; the answer has its number in INFO. */
    RNIC_COMMAND_ASSIGN_WINDOW = 16,
    /* A page of the AOTF space has a template of the queue pair OBJECT from now on, or none. */
    RNIC_COMMAND_SET_TEMPLATE = 17
};

/* Reliability of a queue pair. */
enum {
    RNIC_LEVEL_UNRELIABLE = 0,
    RNIC_LEVEL_DELIVERY = 1, /* Reliable Delivery */
    RNIC_LEVEL_RECEPTION = 2, /* Reliable Reception */
    RNIC_LEVEL_RAW = 3 /* Ethernet frames, without a peer; where CAPS.RAW is set. */
};

/*
 * Bits of RIGHTS of a raw queue pair: which frames it takes, beside those for the card's own
 * address.
 */
enum {
    RNIC_FILTER_MULTICAST = 1, /* Frames for groups, and for all. */
    RNIC_FILTER_PROMISCUOUS = 2 /* All frames. */
};

/* Bits of rights. */
enum {
    RNIC_RIGHT_REMOTE_WRITE = 1,
    RNIC_RIGHT_REMOTE_READ = 2,
    RNIC_RIGHT_DEVICE = 64, /* REGISTER: IOVA is an offset in BAR4. */
    RNIC_RIGHT_LOCAL_READ_ONLY = 128
};

/* States of a queue pair. */
enum {
    /*
     * Nothing is fetched; frames that name it are refused. Entries that are posted stay. From
     * ERROR: both queues begin again, at the indices that the doorbells have then.
     */
    RNIC_QP_STATE_IDLE = 0,
    RNIC_QP_STATE_RECEIVE = 1, /* The peer is known; receives are executed, sends are not. */
    RNIC_QP_STATE_CONNECTED = 2, /* Both are executed. */
    /*
     * What was posted before is sent, and what was received before is acknowledged and answered,
     * for a second at most; then ERROR.
     */
    RNIC_QP_STATE_CLOSING = 3,
    /*
     * Nothing is fetched, arriving frames are dropped; after DMA that was begun, DRAINED is
     * completed.
     */
    RNIC_QP_STATE_ERROR = 4,
    RNIC_QP_STATE_KEEP = 255 /* MODIFY_QP: the state stays. */
};

/* Operations. */
enum {
    RNIC_WORK_SEND = 1,
    RNIC_WORK_WRITE = 2, /* RDMA Write */
    RNIC_WORK_READ = 3, /* RDMA Read */
    RNIC_WORK_RECEIVE = 16,
    /*
     * In completion entries only: the last one of this queue pair, on each of its completion
     * queues.
     */
    RNIC_WORK_DRAINED = 31
};

/* Bits of FLAGS of a work entry. */
enum {
    RNIC_WORK_FLAG_IMMEDIATE = 1, /* Immediate data is sent too (SEND, WRITE). */
    RNIC_WORK_FLAG_FENCE = 2, /* Begins when all RDMA Reads before it are complete. */
    RNIC_WORK_FLAG_LIST = 4, /* The segments are in an array elsewhere. */
    RNIC_WORK_FLAG_INVALID = 8 /* RECEIVE: the message that finds it fails, with LOCAL_FORMAT. */
};

/* Bits of FLAGS of a completion entry. */
enum {
    RNIC_CQE_FLAG_IMMEDIATE = 1, /* IMMEDIATE is valid. */
    RNIC_CQE_FLAG_RDMA = 2, /* A receive that an RDMA Write with immediate data completed. */
    /* Of a raw queue pair: IMMEDIATE and TIME_HIGH are a time of the card in nanoseconds. */
    RNIC_CQE_FLAG_TIME = 4
};

/* How a work entry or command ended. */
enum {
    RNIC_STATUS_OK = 0,
    RNIC_STATUS_LOCAL_PROTECTION = 1, /* A segment's tag does not allow it, or its DMA failed. */
    /* The message was longer than the receive, or longer than allowed. */
    RNIC_STATUS_LOCAL_LENGTH = 2,
    RNIC_STATUS_LOCAL_FORMAT = 3, /* The entry is not valid. */
    RNIC_STATUS_REMOTE_ACCESS = 4, /* The peer does not allow the access. */
    RNIC_STATUS_REMOTE_RECEIVE = 5, /* The message arrived and could not be received. */
    RNIC_STATUS_TRANSPORT = 6, /* Reserved: entries of a connection that ends are not completed. */
    RNIC_STATUS_INVALID = 16, /* A command with a value that is not allowed. */
    RNIC_STATUS_NO_OBJECT = 17, /* It names an object that is not there, or another function's. */
    RNIC_STATUS_WRONG_STATE = 18, /* Not in this state. */
    RNIC_STATUS_BUSY = 19, /* The object is in use, or the peer takes no frames now. */
    RNIC_STATUS_NO_ROOM = 20, /* The card's table is full. */
    RNIC_STATUS_IN_USE = 21, /* Another function has it. */
    RNIC_STATUS_DMA = 22 /* The command's own DMA failed. */
};

/* Events. */
enum {
    RNIC_EVENT_CONTROL = 1, /* A control message. */
    /* A queue pair went to ERROR; CODE says why. Not when the driver asked for it. */
    RNIC_EVENT_QP_ERROR = 2,
    RNIC_EVENT_LINK = 3, /* STATUS.LINK_UP has changed. */
    RNIC_EVENT_CATASTROPHIC = 4, /* STATUS.CATASTROPHIC is set. */
    /*
     * The function PEER_FUNCTION of the card PEER_MAC, which has sent to this adapter, was
     * reset, or its card is silent: its REQUESTs are void.
     */
    RNIC_EVENT_PEER_LOST = 5
};

/* Errors of queue pairs, and of the error log. */
enum {
    RNIC_ERROR_NONE = 0,
    /* The peer's function was reset, its card is silent, or it does not know the connection. */
    RNIC_ERROR_CONNECTION_LOST = 1,
    /* The peer ended the connection; its Terminate names no error of this side. */
    RNIC_ERROR_TERMINATED = 2,
    RNIC_ERROR_RECV_EMPTY = 3, /* A message found no receive. */
    RNIC_ERROR_RECV_PROTECTION = 4, /* A receive's memory could not be written. */
    RNIC_ERROR_RECV_LENGTH = 5, /* A message was too long for its receive. */
    RNIC_ERROR_RECV_FORMAT = 6, /* A receive was not valid. */
    RNIC_ERROR_WRITE_DENIED = 7, /* The peer wrote where it may not. */
    RNIC_ERROR_READ_DENIED = 8, /* The peer read where it may not. */
    RNIC_ERROR_READ_LIMIT = 9, /* The peer sent more RDMA Reads at once than IRD. */
    RNIC_ERROR_PROTOCOL = 10, /* A segment that is not valid here. */
    /* A send's own memory could not be read, or a read's not be written. */
    RNIC_ERROR_SEND_PROTECTION = 11,
    RNIC_ERROR_SEND_FORMAT = 12, /* An entry of the send queue was not valid. */
    RNIC_ERROR_REMOTE_ACCESS = 13, /* The peer's Terminate: our access was denied. */
    RNIC_ERROR_REMOTE_RECEIVE = 14, /* The peer's Terminate: our message could not be received. */
    RNIC_ERROR_REMOTE_OTHER = 15, /* The peer's Terminate names another error of this side. */
    RNIC_ERROR_DMA = 16, /* A DMA was refused. */
    RNIC_ERROR_RING_INDEX = 17, /* A producer index is more than a ring ahead. */
    RNIC_ERROR_CQ_OVERRUN = 18, /* A completion found its queue full: CATASTROPHIC. */
    /*
     * A ring could not be read or written: CATASTROPHIC where it was the command, answer, event
     * or completion ring.
     */
    RNIC_ERROR_RING_DMA = 19,
    RNIC_ERROR_BAD_SETUP = 20, /* A ring base was not valid when ENABLE was set. */
    /* A store into the AOTF space found AOTF_STORES others waiting. */
    RNIC_ERROR_AOTF_OVERRUN = 21,
    RNIC_ERROR_AOTF_STORE = 22 /* A store into the AOTF space that is not valid. */
};

/*
 * Control messages. The card looks at REQUEST and CANCEL alone, to find the listener; the others
 * are the drivers' own.
 */
enum {
    RNIC_CONTROL_REQUEST = 1, /* Asks for a connection; to the adapter. */
    /* The request SERIAL of SOURCE_QP is withdrawn; to the adapter or to a function. */
    RNIC_CONTROL_CANCEL = 2,
    RNIC_CONTROL_REFUSED = 3, /* From a card, which answers a REQUEST that it could not deliver. */
    RNIC_CONTROL_ACCEPT = 4,
    RNIC_CONTROL_REJECT = 5,
    RNIC_CONTROL_READY = 6,
    RNIC_CONTROL_DISCONNECT = 7
};

/* Why a card did not deliver a REQUEST. */
enum {
    RNIC_REFUSED_NO_LISTENER = 1, /* No function takes requests for that discriminator. */
    RNIC_REFUSED_BUSY = 2 /* Its event ring is full: try again. */
};

/* clang-format on */

#endif
