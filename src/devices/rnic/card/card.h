/* SPDX-License-Identifier: MIT */
/*
 * The model of the RDMA card that docs/rnic/hardware.md specifies: what a bus, a wire and a clock
 * can do to it, and what it can do to them. It is pure and deterministic: no sockets, no threads,
 * no clock of its own, no allocation after the start. All its state lies in one area without
 * pointers. It knows nothing of the rest of the library but the codecs of src/iwarp.
 *
 * The caller sees to it that one thread at a time is in here. A callback must not call the model,
 * with one exception: while the card accesses memory, registers may be read
 * (rnic_card_config_read(), rnic_card_bar_read()), of any function. The access may depend on it: a
 * program may hand out its memory only after it has got the register that it is reading. Reading
 * has no effects, and accesses no memory.
 */
#ifndef DEVICES_RNIC_CARD_CARD_H
#define DEVICES_RNIC_CARD_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RNIC_CARD_MAX_FUNCTIONS = 256 };

struct efe_host;

/* How long things take: the costs of section "Time" of the data sheet. */
enum rnic_card_profile {
    RNIC_PROFILE_NONE, /* nothing takes time */
    RNIC_PROFILE_EXPETHER_2008,
    RNIC_PROFILE_MARTINI_2002,
    RNIC_PROFILE_MODERN
};

struct rnic_card_config {
    uint32_t functions; /* 1 to RNIC_CARD_MAX_FUNCTIONS */
    uint32_t qps;       /* of all functions together, as the next three; at most 65,536 */
    uint32_t cqs;
    uint32_t stags;
    uint32_t pbl_entries;
    uint32_t flows; /* (function, remote MAC, remote function) that exchange frames */
    /* that wait for their acknowledgment or in the switch, of all flows together */
    uint32_t frames;
    uint32_t mtu; /* bytes of an Ethernet frame's payload: 576 to 9,000 */
    uint8_t mac[6];
    uint64_t seed; /* of epochs, tags and impairments */
    enum rnic_card_profile profile;
    /* protocol timers and costs are both of simulated time; otherwise costs are only added up */
    bool simulated;
};

/* One access that crosses the card's edge, in either direction, at the moment it happens. */
enum rnic_transaction_kind {
    RNIC_TRANSACTION_CONFIG_READ,
    RNIC_TRANSACTION_CONFIG_WRITE,
    RNIC_TRANSACTION_REGISTER_READ,
    RNIC_TRANSACTION_REGISTER_WRITE,
    /* a changed doorbell was seen: address is its offset in BAR2, value the new index */
    RNIC_TRANSACTION_DOORBELL,
    RNIC_TRANSACTION_DMA_READ,
    RNIC_TRANSACTION_DMA_WRITE,
    RNIC_TRANSACTION_INTERRUPT, /* value is the vector */
    RNIC_TRANSACTION_FRAME_SENT,
    RNIC_TRANSACTION_FRAME_RECEIVED,
    RNIC_TRANSACTION_RESET,
    RNIC_TRANSACTION_SLEEP /* value: 1 falls asleep, 0 wakes */
};
struct rnic_transaction {
    uint64_t time; /* of the model, in nanoseconds */
    enum rnic_transaction_kind kind;
    uint16_t fn;
    uint8_t bar;      /* of registers */
    bool failed;      /* a DMA that was refused */
    uint64_t address; /* offset, or IOVA */
    uint64_t value;   /* of a register, doorbell, interrupt */
    uint32_t bytes;
    const void *data; /* of a DMA or a frame; NULL otherwise */
};

/* What the card may do to the world outside. `fn` is the number of a function. */
struct rnic_card_host {
    /* DMA, in address order; a store of 4 or 8 bytes that is aligned in the target is one store.
     * False: not mapped, or not so mapped: some of the bytes may have been moved. */
    bool (*dma_read)(void *context, unsigned fn, uint64_t iova, void *out, uint32_t bytes);
    bool (*dma_write)(void *context, unsigned fn, uint64_t iova, const void *in, uint32_t bytes);
    /* One aligned 32-bit store, given as the four bytes to be in memory, after all earlier writes
     * of this function. */
    bool (*dma_publish)(void *context, unsigned fn, uint64_t iova, const uint8_t word[4]);
    /* MSI-X: the vector fires. */
    void (*interrupt)(void *context, unsigned fn, unsigned vector);
    /* A frame leaves by the wire, from the destination MAC to the CRC32C at its end. */
    void (*transmit)(void *context, const uint8_t *frame, uint32_t bytes);
    /* Every transaction, for the transaction log; NULL: none is kept. */
    void (*transaction)(void *context, const struct rnic_transaction *transaction);
    /* After a DMA that was refused: whether that is because the driver's program has ended. NULL:
     * it is not. */
    bool (*is_gone)(void *context, unsigned fn);
};

/* The card, outside its area: where that is, and what this process has attached. */
struct rnic_card {
    void *area;
    const struct rnic_card_host *host;
    void *context; /* of the callbacks */
    /* Doorbells, shared with the function's driver; NULL: nobody is attached. */
    uint8_t *bar2[RNIC_CARD_MAX_FUNCTIONS];
    const struct efe_host *flows; /* the card's own, set by rnic_card_init() */
};

/* A multiple of 64. */
size_t rnic_card_bytes(const struct rnic_card_config *config);
/* Powers the card up in an area of so many zeroed bytes, aligned to 64. */
void rnic_card_init(struct rnic_card *card, void *area, const struct rnic_card_config *config,
                    const struct rnic_card_host *host, void *context);

/* A driver's process appears: its function begins as after power-up, with these RNIC_BAR2_BYTES of
 * zeroed doorbells. */
void rnic_card_attach(struct rnic_card *card, unsigned fn, uint8_t *bar2);
/* It has gone: the same as a function-level reset; the doorbells are not looked at any more. */
void rnic_card_detach(struct rnic_card *card, unsigned fn);

/* The wire carries frames, or does not: STATUS.LINK_UP. It does at first. */
void rnic_card_link(struct rnic_card *card, bool up);
/* Makes the wire bad, by a text as impair.h has it; or the card, by one as faults.h has it. An
 * empty text: good again. False: `error` has why in one line, and nothing has changed. */
bool rnic_card_impair(struct rnic_card *card, const char *text, char *error, size_t error_bytes);
bool rnic_card_faults(struct rnic_card *card, const char *text, char *error, size_t error_bytes);

/* PCI configuration space and BARs; offsets and widths (1, 2, 4 or 8) may be anything: what is not
 * there reads as zeros. */
uint32_t rnic_card_config_read(struct rnic_card *card, unsigned fn, uint32_t offset, unsigned bytes);
void rnic_card_config_write(struct rnic_card *card, unsigned fn, uint32_t offset, unsigned bytes,
                            uint32_t value);
uint64_t rnic_card_bar_read(struct rnic_card *card, unsigned fn, unsigned bar, uint64_t offset,
                            unsigned bytes);
/* A fault has removed the card, or reset this function. Neither makes a sound: who has the bus
 * tells the driver. */
bool rnic_card_has_lost(const struct rnic_card *card, unsigned fn);
/* Any of them. */
bool rnic_card_has_lost_any(const struct rnic_card *card);
/* A word of BAR0 as it would be read, for those who watch the card: it is no transaction, and no
 * fault comes of it. */
uint32_t rnic_card_look(struct rnic_card *card, unsigned fn, uint32_t offset);
/* BAR2 may also be written so: hint and wake are implied. */
void rnic_card_bar_write(struct rnic_card *card, unsigned fn, unsigned bar, uint64_t offset, unsigned bytes,
                         uint64_t value);

/* A frame came by the wire. What is wrong with it is counted, and costs nobody anything. */
void rnic_card_receive(struct rnic_card *card, const uint8_t *frame, uint32_t bytes);

/* The time is `now` nanoseconds, never less than before: everything is done that was due. A bounded
 * amount of work: */
void rnic_card_advance(struct rnic_card *card, uint64_t now);
/* ... the card wants to be called again then: at most `now` of the last advance: at once;
 * UINT64_MAX: not by itself. */
uint64_t rnic_card_deadline(const struct rnic_card *card);

/*
 * The card falls asleep: ASLEEP is stored, then everything is scanned once more. False: there is
 * something to do, and it is awake. Asleep, it needs rnic_card_wake() and an advance when WAKE was
 * written, the deadline is reached or a frame came.
 */
bool rnic_card_sleep(struct rnic_card *card);
void rnic_card_wake(struct rnic_card *card);

#endif
