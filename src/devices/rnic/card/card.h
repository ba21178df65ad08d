/* SPDX-License-Identifier: MIT */
/*
 * The model of the RDMA card that docs/rnic/hardware.md specifies: an interface to a bus, a wire
 * and a clock. The model is pure and deterministic: it has no sockets, no threads and no clock, and
 * allocates nothing after the start. All its state lies in one area without pointers. Of the rest
 * of the library it uses only the codecs of src/iwarp.
 *
 * One thread at a time may call the model. A callback must not call the model, with one exception:
 * while the card accesses memory, registers of any function may be read (rnic_card_config_read(),
 * rnic_card_bar_read()). The access may depend on that: a program may give access to its memory
 * only after it has received the register that it is reading. Reading a register has no effects and
 * accesses no memory.
 */
#ifndef DEVICES_RNIC_CARD_CARD_H
#define DEVICES_RNIC_CARD_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RNIC_CARD_MAX_FUNCTIONS = 256 };
/* Bytes of device memory: multiples of RNIC_MEMORY_UNIT, up to these limits. */
enum { RNIC_MEMORY_UNIT = 4096, RNIC_DRAM_MOST = 1 << 30, RNIC_SRAM_MOST = 1 << 20 };

struct efe_host;

/* The costs of the card's work: section "Time" of the data sheet. */
enum rnic_card_profile {
    RNIC_PROFILE_NONE, /* nothing takes time */
    RNIC_PROFILE_EXPETHER_2008,
    RNIC_PROFILE_MARTINI_2002,
    RNIC_PROFILE_MODERN,
    RNIC_PROFILE_CAPTURE_2020, /* of a 40 Gb/s card and memory of 38 Gb/s */
    /* Martini as its authors calculate it: without the time that they do not explain, and with a
     * message's set-up during the DMA of the one before */
    RNIC_PROFILE_MARTINI_EXPLAINED,
    RNIC_PROFILE_MARTINI_OVERLAPPED
};

struct rnic_card_config {
    uint32_t functions; /* 1 to RNIC_CARD_MAX_FUNCTIONS */
    uint32_t qps;       /* of all functions together, as the next three; at most 65,536 */
    uint32_t cqs;
    uint32_t stags;
    uint32_t pbl_entries;
    uint32_t flows; /* (function, remote MAC, remote function) that exchange frames */
    /* frames of all flows that wait for their acknowledgment or in the switch */
    uint32_t frames;
    uint32_t mtu; /* bytes of an Ethernet frame's payload: 576 to 9,000 */
    uint8_t mac[6];
    uint64_t seed; /* of epochs, tags and impairments */
    /* device memory of each function, BAR4; both 0: there is none */
    uint32_t dram_bytes;
    uint32_t sram_bytes;
    uint64_t raw[RNIC_CARD_MAX_FUNCTIONS / 64]; /* a bit for each function that may have raw queue pairs */
    enum rnic_card_profile profile;
    /* true: the time of the protocol's timers includes the costs; false: costs are only added up */
    bool simulated;
};

/* A bus transaction, in either direction, or a frame: what passes the card's edge. */
enum rnic_transaction_kind {
    RNIC_TRANSACTION_CONFIG_READ,
    RNIC_TRANSACTION_CONFIG_WRITE,
    RNIC_TRANSACTION_REGISTER_READ,
    RNIC_TRANSACTION_REGISTER_WRITE,
    /* the card has seen a changed doorbell: address is the offset in BAR2, value the new index */
    RNIC_TRANSACTION_DOORBELL,
    RNIC_TRANSACTION_DMA_READ,
    RNIC_TRANSACTION_DMA_WRITE,
    RNIC_TRANSACTION_INTERRUPT, /* value is the vector */
    RNIC_TRANSACTION_FRAME_SENT,
    RNIC_TRANSACTION_FRAME_RECEIVED,
    RNIC_TRANSACTION_RESET,
    RNIC_TRANSACTION_SLEEP, /* value 1: the card falls asleep; 0: it wakes */
    /* the card has copied a part of an entry out of a window: address is the offset in BAR2, value
     * the running index behind the entry */
    RNIC_TRANSACTION_WINDOW,
    /*
     * The rest is no bus transaction. A host with loaded() gets it, too: with it a log has all that
     * a card has been told and has found, and another card can be made to do the same again.
     */
    RNIC_TRANSACTION_CARD,      /* power-up: data is the text of rnic_card_describe() */
    RNIC_TRANSACTION_IMPAIR,    /* data is the text of rnic_card_impair() */
    RNIC_TRANSACTION_FAULTS,    /* data is the text of rnic_card_faults() */
    RNIC_TRANSACTION_ATTACH,    /* value has bit 0 if there is a BAR2, bit 1 if there is a BAR4 */
    RNIC_TRANSACTION_DETACH,    /* rnic_card_detach() was called */
    RNIC_TRANSACTION_LINK,      /* value is the argument of rnic_card_link() */
    RNIC_TRANSACTION_RECEIVE,   /* data is the frame of rnic_card_receive() */
    RNIC_TRANSACTION_ADVANCE,   /* value is the time of rnic_card_advance() */
    RNIC_TRANSACTION_TRY_SLEEP, /* rnic_card_sleep() was called */
    /* the card has loaded bytes of a BAR that the driver has stored since the card's last look:
     * value is how many loads came between the record before and this one. The host makes it. */
    RNIC_TRANSACTION_LOAD,
    RNIC_TRANSACTION_GONE /* is_gone() was true */
};
enum {
    RNIC_TRANSACTION_EDGE_KINDS = RNIC_TRANSACTION_WINDOW + 1, /* that pass the card's edge */
    RNIC_TRANSACTION_KINDS = RNIC_TRANSACTION_GONE + 1
};
struct rnic_transaction {
    uint64_t time; /* of the model, in nanoseconds; never before that of an earlier transaction */
    enum rnic_transaction_kind kind;
    uint16_t fn;
    uint8_t bar;      /* of registers and windows */
    bool failed;      /* the bus has refused a DMA */
    uint64_t address; /* offset, or IOVA */
    uint64_t value;   /* of a register, doorbell, interrupt */
    uint32_t bytes;
    const void *data; /* of a DMA, a window or a frame, and of kinds above; NULL otherwise */
};

/* What rnic_card_host.loaded() is told in place of a BAR: bytes of a DMA that a fault has
 * changed. */
enum { RNIC_POISONED_DMA = 255 };

/* The callbacks of the card. `fn` is the number of a function. */
struct rnic_card_host {
    /*
     * DMA, in address order. A store of 4 or 8 bytes that is aligned in the target is a single
     * store. Returns false if the memory is not mapped for this access; some of the bytes may have
     * been moved.
     */
    bool (*dma_read)(void *context, unsigned fn, uint64_t iova, void *out, uint32_t bytes);
    bool (*dma_write)(void *context, unsigned fn, uint64_t iova, const void *in, uint32_t bytes);
    /* One aligned 32-bit store, given as the four bytes in memory, after all earlier writes of this
     * function. */
    bool (*dma_publish)(void *context, unsigned fn, uint64_t iova, const uint8_t word[4]);
    /* A vector of MSI-X fires. */
    void (*interrupt)(void *context, unsigned fn, unsigned vector);
    /* Sends a frame through the wire, from the destination MAC to the CRC32C at its end. */
    void (*transmit)(void *context, const uint8_t *frame, uint32_t bytes);
    /* Optional (may be NULL): called for every transaction, for the transaction log. */
    void (*transaction)(void *context, const struct rnic_transaction *transaction);
    /* Optional (may be NULL): called after a DMA that was refused. Returns true if the reason is
     * that the driver's program has ended. */
    bool (*is_gone)(void *context, unsigned fn);
    /* Optional (may be NULL): zeroes the function's BAR4, which the card does itself otherwise. */
    void (*clear)(void *context, unsigned fn);
    /*
     * Optional (may be NULL, both or none): called after each of the card's own loads from BAR2 or
     * BAR4, and after each of its own stores. For a log from which the card can be replayed: one
     * host notes what was loaded, another one gives the card what was noted, in `data`.
     */
    void (*loaded)(void *context, unsigned fn, unsigned bar, uint64_t offset, void *data, uint32_t bytes);
    void (*stored)(void *context, unsigned fn, unsigned bar, uint64_t offset, const void *data,
                   uint32_t bytes);
};

/* The card outside its area: the pointers to the area and to what this process has attached. */
struct rnic_card {
    void *area;
    const struct rnic_card_host *host;
    void *context; /* the argument of the callbacks */
    /* The doorbells, shared with the function's driver; NULL: the function has no driver. */
    uint8_t *bar2[RNIC_CARD_MAX_FUNCTIONS];
    /* Device memory, shared likewise; NULL: the function has none now. */
    uint8_t *bar4[RNIC_CARD_MAX_FUNCTIONS];
    const struct efe_host *flows; /* the card's callbacks of EFE, set by rnic_card_init() */
};

/* Returns the size of the area, a multiple of 64. */
size_t rnic_card_bytes(const struct rnic_card_config *config);
/* Powers the card up. `area`: rnic_card_bytes() zeroed bytes, aligned to 64. */
void rnic_card_init(struct rnic_card *card, void *area, const struct rnic_card_config *config,
                    const struct rnic_card_host *host, void *context);

enum { RNIC_CARD_TEXT = 1024 }; /* bytes in which every configuration's text has room */
/* The configuration as a text, "name=value ...", and back. The first returns false if `size` is too
 * small, the second if the text is not one of this version. */
bool rnic_card_describe(const struct rnic_card_config *config, char *text, size_t size);
bool rnic_card_understand(const char *text, struct rnic_card_config *out);

/*
 * Continues with the area of a card that was saved between two calls, or a copy of one, on this CPU
 * or, if `swaps`, on one of the other byte order. `config`: what the card was made with. False: the
 * area is none of such a card, or not of this version. The functions' memory is given back by
 * rnic_card_give(), NULL where there was none, before anything else is called.
 */
bool rnic_card_continue(struct rnic_card *card, void *area, const struct rnic_card_config *config, bool swaps,
                        const struct rnic_card_host *host, void *context);
void rnic_card_give(struct rnic_card *card, unsigned fn, uint8_t *bar2, uint8_t *bar4);

/* Returns how many functions the card has. */
unsigned rnic_card_functions(const struct rnic_card *card);

/* Returns the size of BAR4, a power of two with room for the device memory; 0: there is none. */
uint64_t rnic_card_bar4_bytes(const struct rnic_card_config *config);

/* Attaches a driver's process: the function begins as after power-up. `bar2`: the doorbells,
 * RNIC_BAR2_BYTES zeroed bytes. `bar4`: the device memory, rnic_card_bar4_bytes() zeroed bytes,
 * aligned to 8; NULL: the card has none. */
void rnic_card_attach(struct rnic_card *card, unsigned fn, uint8_t *bar2, uint8_t *bar4);
/* Detaches the driver's process, with a function-level reset. The card does not read the doorbells
 * any more. */
void rnic_card_detach(struct rnic_card *card, unsigned fn);

/* Sets whether the wire carries frames (STATUS.LINK_UP). At first it does. */
void rnic_card_link(struct rnic_card *card, bool up);
/*
 * Make the wire bad, by a text that efe/impair.h describes, and the card faulty, by a text that
 * faults.h describes. An empty text: good again. Return false if the text is wrong: `error` says
 * why in one line, and nothing has changed.
 */
bool rnic_card_impair(struct rnic_card *card, const char *text, char *error, size_t error_bytes);
bool rnic_card_faults(struct rnic_card *card, const char *text, char *error, size_t error_bytes);

/* Accesses to PCI configuration space and BARs. Any offset and a width of 1, 2, 4 or 8 bytes are
 * allowed; bytes that do not exist read as zeros. */
uint32_t rnic_card_config_read(struct rnic_card *card, unsigned fn, uint32_t offset, unsigned bytes);
void rnic_card_config_write(struct rnic_card *card, unsigned fn, uint32_t offset, unsigned bytes,
                            uint32_t value);
uint64_t rnic_card_bar_read(struct rnic_card *card, unsigned fn, unsigned bar, uint64_t offset,
                            unsigned bytes);
/* Returns true if a fault has removed the card or reset this function. The card itself reports
 * neither; the caller, as the bus, tells the driver. */
bool rnic_card_has_lost(const struct rnic_card *card, unsigned fn);
/* Returns true if rnic_card_has_lost() is true for any function. */
bool rnic_card_has_lost_any(const struct rnic_card *card);
/* Returns a word of BAR0 for a monitor: the access is no transaction and triggers no fault. */
uint32_t rnic_card_look(struct rnic_card *card, unsigned fn, uint32_t offset);
/* Writes to a BAR. A write to BAR2 implies the hint and the wake. */
void rnic_card_bar_write(struct rnic_card *card, unsigned fn, unsigned bar, uint64_t offset, unsigned bytes,
                         uint64_t value);

/* Called when a frame has arrived through the wire. An invalid frame is counted and has no other
 * effect. */
void rnic_card_receive(struct rnic_card *card, const uint8_t *frame, uint32_t bytes);

/* Runs the card at the time `now`, in nanoseconds, which never decreases. One call does a bounded
 * amount of the work that is due. */
void rnic_card_advance(struct rnic_card *card, uint64_t now);
/* Returns when rnic_card_advance() has to be called again. A time that is not later than `now` of
 * the last call: at once. UINT64_MAX: never, unless something happens. */
uint64_t rnic_card_deadline(const struct rnic_card *card);

/* Returns the model's time: in a callback, when what the callback is about happens. With simulated
 * time that may be later than `now` of the last call. */
uint64_t rnic_card_now(const struct rnic_card *card);

/*
 * Makes the card sleep: stores ASLEEP, then scans all doorbells once more. Returns false if there
 * is work; the card stays awake. A card that sleeps needs rnic_card_wake() and rnic_card_advance()
 * when WAKE was written, the deadline is reached or a frame has arrived.
 */
bool rnic_card_sleep(struct rnic_card *card);
void rnic_card_wake(struct rnic_card *card);

#endif
