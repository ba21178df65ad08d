/* SPDX-License-Identifier: MIT */
/**
 * @file device_memory.h Recorded packets between a store, memory and a port: the library libvipldm.
 *
 * A sender reads chunks of a recording (pcap or pcapng) from a store into memory and sends the
 * packets from there, without a copy. A capture receives packets into slots of memory, each of
 * which is a block of a pcapng file already, and writes the slots to a store. Store, memory and
 * port are named by texts:
 *
 *  | part   | kinds of this version                                     |
 *  |--------|-----------------------------------------------------------|
 *  | store  | `file:PATH`                                               |
 *  |        | `nvme:ADDRESS[,lba=N][,blocks=N]`, an NVMe namespace      |
 *  | memory | `ram`; `rnic`, memory of the port's card                  |
 *  |        | `cmb:ADDRESS`, the memory buffer of an NVMe controller    |
 *  |        | `bar:ADDRESS:N`, memory behind BAR N of a PCI function    |
 *  |        | `p2p:ADDRESS`, memory of a function, from the kernel      |
 *  | port   | `packet:IFACE`, a network interface of the Linux kernel's |
 *  |        | `rnic:DEVICE`, a raw queue pair of the RDMA card          |
 *  |        | `dpdk:NAME`, a driver of DPDK, by a plug-in               |
 *
 * DEVICE is what stands behind `rnic:` in the name of a device of VIPL: `inproc`, `socket:PATH`,
 * `bus:PATH`, `pci:ADDRESS`. The library needs nothing of libvipl: it has the driver of the card
 * in it, and the driver's settings (VIPL_RNIC and others).
 *
 * ADDRESS is that of a PCI function which the kernel's vfio-pci has, such as `0000:05:00.0`. The
 * function is this process's alone as long as a part of that name is open, and one store's and one
 * memory's. Memory of PCI functions goes with a store `nvme` and a port `rnic:pci:ADDRESS` or
 * `dpdk:ADDRESS` only, which move packets by DMA; but `p2p:ADDRESS` (P2PDMA), whose function the
 * kernel's own driver has, goes with files on NVMe controllers, by O_DIRECT, and with a port
 * `rnic:pci:ADDRESS` behind no IOMMU. On an NVMe namespace a label is before the
 * recording, as docs/rnic/traffic.md says; a capture needs `lba` and `blocks`, the range that it
 * overwrites. If the range is full, the capture ends with ENOSPC, and is whole up to there.
 *
 * NAME of a port `dpdk` is an ADDRESS, or a virtual device of DPDK's with its arguments, whose
 * packets the CPU copies. DPDK begins with the first such port of the process, and stays.
 *
 * A function that returns int returns 0, or an errno value and a text that says what is wrong. One
 * thread at a time may use one object. No function is for signal handlers.
 */
#ifndef VIPL_DEVICE_MEMORY_H
#define VIPL_DEVICE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __GNUC__
#define VIPL_DM_API __attribute__((visibility("default")))
#else
#define VIPL_DM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------
 * Traffic: recorded packets between a store, memory and a port.
 * ------------------------------------------------------------------------------------------ */

/** Why a call has failed, for people. */
struct vipl_dm_reason {
    char text[256]; /**< One sentence without a full stop. */
};

/** Where packets come from and go to. All texts are copied. */
struct vipl_dm_path {
    const char *store;     /**< The recording, or where the capture goes. */
    const char *port;      /**< Where packets leave or arrive. */
    const char *memory;    /**< NULL: `ram`. */
    uint64_t memory_bytes; /**< For packets; 0: 64 MiB, or all that a device has if that is less. */
    uint32_t chunk_bytes;  /**< Of one transfer to or from the store, at least 65536; 0: 1 MiB. */
    uint32_t allow_ram;    /**< Not 0: take `ram` where the memory that is named cannot serve. */
};

/** What has happened so far. The counters of a sender and of a capture have the same names. */
struct vipl_dm_counters {
    uint64_t sent;           /**< Packets that the port has taken. */
    uint64_t sent_bytes;     /**< Their bytes. */
    uint64_t received;       /**< Packets that have come into a slot. */
    uint64_t received_bytes; /**< Their bytes, as far as they are kept. */
    uint64_t missed;         /**< Capture: packets that the port dropped although it had slots. Of a card
                                  those that found no receive: RAW_MISSED. */
    uint64_t no_slot;        /**< Capture: packets that the port dropped because it had no slot.
                                  Sender: times that the port had no room for a packet. */
    uint64_t store_behind;   /**< Times that a packet, or a slot, had to wait for the store. */
    uint64_t truncated;      /**< Packets that are kept, or were sent, without their last bytes. */
    uint64_t refused;        /**< Sender: packets that the port refuses, or that are shorter than a
                                  header of Ethernet. A card says so after it has taken them, and then
                                  they are not `sent` any more. */
    uint64_t lost;           /**< Packets that were to be sent or kept, and were not, or not whole. */
    uint64_t late_ns;        /**< Sender: the longest time by which a packet was late. */
    uint64_t elapsed_ns;     /**< From the start to the last packet. Of packets that a card has let
                                  leave at their times, these two are by the card's clock. */
};

/** How fast a sender sends. */
enum vipl_dm_pace {
    VIPL_DM_TOP_SPEED = 0, /**< As fast as the port takes packets. */
    VIPL_DM_BITS = 1,      /**< `rate` bits of frames per second, without preamble, CRC and gap. */
    VIPL_DM_PACKETS = 2,   /**< `rate` packets per second. */
    VIPL_DM_GAP = 3,       /**< `rate` nanoseconds from one packet to the next. */
    VIPL_DM_RECORDED = 4   /**< As recorded, `rate` millionths as fast: 1000000 is the same pace. */
};

/** What a sender is to do. Zeros are the defaults. */
struct vipl_dm_send {
    struct vipl_dm_path path; /**< The parts. */
    const char *index;        /**< A file of vipl_dm_index_write(), or NULL: an index is made. */
    enum vipl_dm_pace pace;   /**< What `rate` means. */
    uint64_t rate;            /**< 1 to 10^15, except for the top speed. */
    uint64_t loops;           /**< How often the recording is sent; 0: for ever. */
    uint64_t count;           /**< The most packets; 0: no limit. */
    uint64_t duration_ns;     /**< The time; 0: no limit. */
    uint32_t burst;           /**< This number of packets leaves at a time, the rate being held on
                                   average; 0 and 1: each alone. */
    uint32_t reserved;        /**< 0. */
};

/** What a capture is to do. Zeros are the defaults. */
struct vipl_dm_receive {
    struct vipl_dm_path path; /**< The parts. */
    uint64_t count;           /**< The most packets; 0: no limit. */
    uint64_t duration_ns;     /**< The time; 0: no limit. */
    uint64_t ring_bytes;      /**< A file that has this number of bytes is ended, and another begun;
                                   0: one file. */
    uint32_t ring_files;      /**< With `ring_bytes`: the files that are kept, the last ones. */
    uint32_t snaplen;         /**< The bytes of a packet that are kept, at most 65400; 0: those of the
                                   port's largest frame. */
    uint32_t compact;         /**< Not 0: blocks without what fills their slots. The CPU copies them. */
    uint32_t only_explain;    /**< Not 0: the store is left alone, and the capture is for
                                   vipl_dm_capture_explain() and vipl_dm_capture_close() only. */
};

/** A sender. */
struct vipl_dm_sender;
/** A capture. */
struct vipl_dm_capture;

/**
 * Read a recording and write where its packets are: an index, which vipl_dm_sender_open() takes.
 *
 * @param store  The recording.
 * @param path   The file that is written.
 * @param reason Receives what is wrong.
 * @return 0, or an errno value.
 */
VIPL_DM_API int vipl_dm_index_write(const char *store, const char *path, struct vipl_dm_reason *reason);

/**
 * Open the parts of a sender and fill its memory. Nothing is sent.
 *
 * @param send   What is to be done.
 * @param sender Receives the sender.
 * @param reason Receives what is wrong: also a combination that cannot work.
 * @return 0, or an errno value.
 */
VIPL_DM_API int vipl_dm_sender_open(const struct vipl_dm_send *send, struct vipl_dm_sender **sender,
                                    struct vipl_dm_reason *reason);

/**
 * Send for some time. The first call starts the clock of the pace.
 *
 * @param sender      The sender.
 * @param nanoseconds The longest time that the call takes.
 * @param is_done     Receives 1 if everything is sent, else 0.
 * @param reason      Receives what is wrong.
 * @return 0, or an errno value: the store or the port has failed.
 */
VIPL_DM_API int vipl_dm_sender_run(struct vipl_dm_sender *sender, uint64_t nanoseconds, int *is_done,
                                   struct vipl_dm_reason *reason);

/**
 * Read the counters of a sender.
 *
 * @param sender   The sender.
 * @param counters Receives them.
 */
VIPL_DM_API void vipl_dm_sender_counters(const struct vipl_dm_sender *sender,
                                         struct vipl_dm_counters *counters);

/**
 * Say how packets go, from part to part.
 *
 * @param sender The sender.
 * @param text   Receives the text, cut to `room`.
 * @param room   Bytes of `text`, with the end.
 */
VIPL_DM_API void vipl_dm_sender_explain(const struct vipl_dm_sender *sender, char *text, size_t room);

/**
 * Close a sender; the port has sent what it has taken.
 *
 * @param sender The sender, or NULL.
 */
VIPL_DM_API void vipl_dm_sender_close(struct vipl_dm_sender *sender);

/**
 * Open the parts of a capture, and begin to receive.
 *
 * @param receive What is to be done.
 * @param capture Receives the capture.
 * @param reason  Receives what is wrong: also a combination that cannot work.
 * @return 0, or an errno value.
 */
VIPL_DM_API int vipl_dm_capture_open(const struct vipl_dm_receive *receive, struct vipl_dm_capture **capture,
                                     struct vipl_dm_reason *reason);

/**
 * Receive for some time.
 *
 * @param capture     The capture.
 * @param nanoseconds The longest time that the call takes.
 * @param is_done     Receives 1 if the count or the duration is reached, else 0.
 * @param reason      Receives what is wrong.
 * @return 0, or an errno value: the store or the port has failed.
 */
VIPL_DM_API int vipl_dm_capture_run(struct vipl_dm_capture *capture, uint64_t nanoseconds, int *is_done,
                                    struct vipl_dm_reason *reason);

/**
 * End a capture: take what has arrived, write it, and end the file. To be called once, before
 * vipl_dm_capture_close().
 *
 * @param capture The capture.
 * @param reason  Receives what is wrong.
 * @return 0, or an errno value: the store has failed.
 */
VIPL_DM_API int vipl_dm_capture_stop(struct vipl_dm_capture *capture, struct vipl_dm_reason *reason);

/**
 * Read the counters of a capture.
 *
 * @param capture  The capture.
 * @param counters Receives them.
 */
VIPL_DM_API void vipl_dm_capture_counters(const struct vipl_dm_capture *capture,
                                          struct vipl_dm_counters *counters);

/**
 * Say how packets go, from part to part.
 *
 * @param capture The capture.
 * @param text    Receives the text, cut to `room`.
 * @param room    Bytes of `text`, with the end.
 */
VIPL_DM_API void vipl_dm_capture_explain(const struct vipl_dm_capture *capture, char *text, size_t room);

/**
 * Close a capture. Packets that vipl_dm_capture_stop() has not written are gone.
 *
 * @param capture The capture, or NULL.
 */
VIPL_DM_API void vipl_dm_capture_close(struct vipl_dm_capture *capture);

#ifdef __cplusplus
}
#endif

#endif
