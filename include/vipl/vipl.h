/* SPDX-License-Identifier: MIT */
/**
 * @file vipl.h
 * The Virtual Interface Provider Library, version 1.0, whole.
 *
 * Names, values and layouts are those of the VI Architecture 1.0 and of the VI Architecture
 * Developer's Guide 1.0; a program of 1998-2005 compiles against this file unedited. What the
 * guide left open and this library decides is marked "[ours]".
 *
 * Conventions for every function below, unless its own comment says otherwise:
 *
 * - @b Returns. #VIP_SUCCESS, or a code that says why nothing changed. A handle that is NULL,
 *   stale, of another kind or of another NIC handle, a NULL out-pointer or a malformed length is
 *   #VIP_INVALID_PARAMETER; no call crashes on a bad handle. Out-parameters are written only on
 *   success, except that a call that hands back a handle or a descriptor writes NULL when it
 *   returns none.
 * - @b Threads. Every function may be called from any thread at any time; two VIs never wait for
 *   each other's locks unless they are connected to each other or share a completion queue.
 * - @b Signals. What a signal handler may call is in posix.h. A blocking call during which a
 *   handler ran in its thread returns #VIP_INTERRUPTED and has consumed nothing, unless the setting
 *   VIPL_RESTART=1 makes it resume with the time left.
 * - @b fork. Handles do not survive into a child: there each call on one returns
 *   #VIP_INVALID_PARAMETER, and nothing the child does changes what the parent sees.
 * - @b Callbacks run on one library thread per NIC handle, never two at once for one handle, with
 *   no library lock held; they may call every function, and exit().
 * - @b Timeouts are milliseconds on a monotonic clock; 0 polls, #VIP_INFINITE waits for ever.
 */
#ifndef VIPL_VIPL_H
#define VIPL_VIPL_H

#ifdef __cplusplus
extern "C" {
#endif

/** @cond */ /* what compilers need */
#if defined(__GNUC__)
#define VIPL_EXTENSION __extension__ /* long long and unnamed unions in C89 and C++98 */
#else
#define VIPL_EXTENSION
#endif

#if defined(_WIN32) && !defined(__CYGWIN__)
#if defined(VIPL_BUILDING)
#define VIPL_API __declspec(dllexport)
#elif defined(VIPL_SHARED)
#define VIPL_API __declspec(dllimport)
#else
#define VIPL_API
#endif
#ifndef VI_CALL
#define VI_CALL __cdecl
#endif
#else
#if defined(__GNUC__)
#define VIPL_API __attribute__((visibility("default")))
#else
#define VIPL_API
#endif
#ifndef VI_CALL
#define VI_CALL
#endif
#endif

#if defined(__GNUC__)
#define VIPL_MAY_ALIAS __attribute__((__may_alias__)) /* programs cast one kind of segment to the other */
#else
#define VIPL_MAY_ALIAS
#endif

/** @endcond */

/* ---------------------------------------------------------------------------------------------
 * Scalar types
 * ------------------------------------------------------------------------------------------ */

typedef void *VIP_PVOID;           /**< An address. */
typedef int VIP_BOOLEAN;           /**< #VIP_TRUE or #VIP_FALSE. */
typedef char VIP_CHAR;             /**< A byte of a text. */
typedef unsigned char VIP_UCHAR;   /**< As C has it. */
typedef unsigned short VIP_USHORT; /**< As C has it. */
typedef short VIP_SHORT;           /**< As C has it. */
typedef unsigned long VIP_ULONG;   /**< As C has it: 4 or 8 bytes. */
typedef long VIP_LONG;             /**< As C has it: 4 or 8 bytes. */
typedef unsigned char VIP_UINT8;   /**< 8 bits. */
typedef unsigned short VIP_UINT16; /**< 16 bits. */
typedef unsigned int VIP_UINT32;   /**< 32 bits. */
#if defined(__GNUC__) && defined(__cplusplus) && __cplusplus < 201103L
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wlong-long" /* g++ does not take __extension__ for this one */
#endif
VIPL_EXTENSION typedef unsigned long long VIP_UINT64; /**< 64 bits. */
#if defined(__GNUC__) && defined(__cplusplus) && __cplusplus < 201103L
#pragma GCC diagnostic pop
#endif

#define VIP_TRUE 1  /**< Yes. */
#define VIP_FALSE 0 /**< No. */

typedef void *VIP_EVENT_HANDLE;      /**< Of old programs; no function here takes one. */
typedef void *VIP_NIC_HANDLE;        /**< An opened device. */
typedef void *VIP_VI_HANDLE;         /**< A virtual interface. */
typedef void *VIP_CQ_HANDLE;         /**< A completion queue. */
typedef void *VIP_CONN_HANDLE;       /**< A pending connection request. */
typedef void *VIP_PROTECTION_HANDLE; /**< A protection tag. */
typedef void *VIP_QOS;               /**< Quality of service; no backend offers any: NULL. */
typedef VIP_UINT32 VIP_MEM_HANDLE;   /**< A registered region; never 0, never 0xFFFFFFFF. */

/** The timeout that never ends. 0xFFFFFFFF is treated alike, for 32-bit programs widened. */
#define VIP_INFINITE (~(VIP_ULONG)0)

/** Descriptors lie on multiples of this many bytes. */
#define VIP_DESCRIPTOR_ALIGNMENT 64

/* ---------------------------------------------------------------------------------------------
 * Result codes and other enumerations
 * ------------------------------------------------------------------------------------------ */

/** What a call returns. The values index string tables in old programs and never change. */
typedef enum {
    VIP_SUCCESS = 0,           /**< Done. */
    VIP_NOT_DONE = 1,          /**< Nothing is complete yet. */
    VIP_INVALID_PARAMETER = 2, /**< An argument is not allowed, or a handle is not a live one. */
    VIP_ERROR_RESOURCE = 3,    /**< Memory, a device, descriptors, a limit or rights do not suffice. */
    VIP_TIMEOUT = 4,           /**< The time is over. */
    VIP_REJECT = 5,            /**< The other program refused the connection. */
    VIP_INVALID_RELIABILITY_LEVEL = 6, /**< Not supported, or the two ends differ. */
    VIP_INVALID_MTU = 7,               /**< MaxTransferSize is not possible, or the two ends differ. */
    VIP_INVALID_QOS = 8,               /**< Not supported, or the two ends differ. */
    VIP_INVALID_PTAG = 9,              /**< The tag is not a live one of the NIC handle. */
    VIP_INVALID_RDMAREAD = 10,         /**< No RDMA Read at this level. */
    VIP_DESCRIPTOR_ERROR = 11,         /**< The descriptor has an error in its Status. */
    VIP_INVALID_STATE = 12,            /**< Not in this state of the VI. */
    VIP_ERROR_NAMESERVICE = 13,        /**< The name service does not know it. */
    VIP_NO_MATCH = 14,                 /**< The host is there, and no program waits for the name. */
    VIP_NOT_REACHABLE = 15,            /**< The host is not there. */
    VIP_ERROR_NOT_SUPPORTED = 16,      /**< Not by this device or build, or not here. */
    VIP_INTERRUPTED = 17               /**< [ours] A signal handler ran during a blocking call. */
} VIP_RETURN;

#define VIP_ERROR VIP_DESCRIPTOR_ERROR /**< Of old programs. */

/** The states of a VI; see VipQueryVi(). */
typedef enum {
    VIP_STATE_IDLE = 0,            /**< Not connected. */
    VIP_STATE_CONNECTED = 1,       /**< Messages go both ways. */
    VIP_STATE_CONNECT_PENDING = 2, /**< A connect is under way. */
    VIP_STATE_ERROR = 3            /**< The connection is lost: to be disconnected. */
} VIP_VI_STATE;

/** What an asynchronous error is about. */
typedef enum {
    VIP_RESOURCE_NIC = 0,       /**< The device. */
    VIP_RESOURCE_VI = 1,        /**< A VI. */
    VIP_RESOURCE_CQ = 2,        /**< A completion queue. */
    VIP_RESOURCE_DESCRIPTOR = 3 /**< A descriptor. */
} VIP_RESOURCE_CODE;

/** Asynchronous errors, reported through VipErrorCallback(). */
typedef enum {
    VIP_ERROR_POST_DESC = 0,      /**< A posted descriptor is unaligned or not registered. */
    VIP_ERROR_CONN_LOST = 1,      /**< The peer disconnected, died or became unreachable. */
    VIP_ERROR_RECVQ_EMPTY = 2,    /**< A message came and no receive was posted. */
    VIP_ERROR_VI_OVERRUN = 3,     /**< A completion found its completion queue full. */
    VIP_ERROR_RDMAW_PROT = 4,     /**< A remote RDMA Write failed the protection check here. */
    VIP_ERROR_RDMAW_DATA = 5,     /**< A remote RDMA Write could not be placed. */
    VIP_ERROR_RDMAW_ABORT = 6,    /**< A remote RDMA Write stopped half-way. */
    VIP_ERROR_RDMAR_PROT = 7,     /**< A remote RDMA Read failed the protection check here. */
    VIP_ERROR_COMP_PROT = 8,      /**< A completion could not be written. */
    VIP_ERROR_RDMA_TRANSPORT = 9, /**< The transport failed during RDMA. */
    VIP_ERROR_CATASTROPHIC = 10   /**< The device failed. */
} VIP_ERROR_CODE;

/** Reliability levels are bits: VIP_NIC_ATTRIBUTES combines them, a VI has one. */
typedef VIP_USHORT VIP_RELIABILITY_LEVEL;

#define VIP_SERVICE_UNRELIABLE 1         /**< Success: the data has left the caller's buffer. */
#define VIP_SERVICE_RELIABLE_DELIVERY 2  /**< Success: a reliable transport has the data. */
#define VIP_SERVICE_RELIABLE_RECEPTION 4 /**< Success: the data is in the remote memory. */

/* ---------------------------------------------------------------------------------------------
 * Addresses and attributes. Member order is the interface.
 * ------------------------------------------------------------------------------------------ */

/**
 * An address: a host and a discriminator (what others call a port or a service).
 *
 * HostAddressLen bytes of host address start at HostAddress; DiscriminatorLen bytes of
 * discriminator follow them at once. A program allocates sizeof(VIP_NET_ADDRESS) plus both
 * lengths. The library reads and writes nothing beyond the two lengths.
 */
typedef struct _VIP_NET_ADDRESS {
    VIP_UINT16 HostAddressLen;   /**< Bytes of the host's address. */
    VIP_UINT16 DiscriminatorLen; /**< Bytes of the discriminator. */
    VIP_UINT8 HostAddress[1];    /**< Both, one behind the other. */
} VIP_NET_ADDRESS;

/** What a device is and can do; see VipQueryNic(). */
typedef struct _VIP_NIC_ATTRIBUTES {
    VIP_CHAR Name[64];                             /**< Device name, NUL-terminated. */
    VIP_ULONG HardwareVersion;                     /**< 0 for software. */
    VIP_ULONG ProviderVersion;                     /**< major << 16 | minor << 8 | patch. */
    VIP_UINT16 NicAddressLen;                      /**< Bytes at LocalNicAddress. */
    const VIP_UINT8 *LocalNicAddress;              /**< Valid until VipCloseNic(). */
    VIP_BOOLEAN ThreadSafe;                        /**< Always #VIP_TRUE. */
    VIP_UINT16 MaxDiscriminatorLen;                /**< Bytes. */
    VIP_ULONG MaxRegisterBytes;                    /**< In all regions together. */
    VIP_ULONG MaxRegisterRegions;                  /**< Regions at once. */
    VIP_ULONG MaxRegisterBlockBytes;               /**< In one region. */
    VIP_ULONG MaxVI;                               /**< VIs at once. */
    VIP_ULONG MaxDescriptorsPerQueue;              /**< Posted and not reaped, per queue. */
    VIP_ULONG MaxSegmentsPerDesc;                  /**< SegCount, an RDMA address segment included. */
    VIP_ULONG MaxCQ;                               /**< Completion queues at once. */
    VIP_ULONG MaxCQEntries;                        /**< EntryCount of one completion queue. */
    VIP_ULONG MaxTransferSize;                     /**< Bytes one descriptor may move. */
    VIP_ULONG NativeMTU;                           /**< Bytes that travel as one unit. */
    VIP_ULONG MaxPtags;                            /**< Protection tags at once. */
    VIP_RELIABILITY_LEVEL ReliabilityLevelSupport; /**< Levels a VI may have. */
    VIP_RELIABILITY_LEVEL RDMAReadSupport;         /**< Levels at which RDMA Read works. */
} VIP_NIC_ATTRIBUTES;

/** How a VI behaves; see VipCreateVi(). */
typedef struct _VIP_VI_ATTRIBUTES {
    VIP_RELIABILITY_LEVEL ReliabilityLevel; /**< Exactly one level. */
    VIP_ULONG MaxTransferSize;              /**< Bytes; both ends must agree. */
    VIP_QOS QoS;                            /**< NULL. */
    VIP_PROTECTION_HANDLE Ptag;             /**< NULL: the default tag, and memory of any tag [ours]. */
    VIP_BOOLEAN EnableRdmaWrite;            /**< The peer may write here. */
    VIP_BOOLEAN EnableRdmaRead;             /**< The peer may read here. */
} VIP_VI_ATTRIBUTES;

/** How a region may be used; see VipRegisterMem(). */
typedef struct _VIP_MEM_ATTRIBUTES {
    VIP_PROTECTION_HANDLE Ptag;  /**< NULL: the NIC handle's default tag [ours]. */
    VIP_BOOLEAN EnableRdmaWrite; /**< Peers may write here. */
    VIP_BOOLEAN EnableRdmaRead;  /**< Peers may read here. */
} VIP_MEM_ATTRIBUTES;

/** For VipQuerySystemManagementInfo(): the reachable NIC addresses. */
#define VIP_SMI_AUTODISCOVERY ((VIP_ULONG)1)

/** Filled by VipQuerySystemManagementInfo() with #VIP_SMI_AUTODISCOVERY. */
typedef struct _VIP_AUTODISCOVERY_LIST {
    VIP_ULONG NumberOfHops;        /**< In: how far to look. */
    VIP_NET_ADDRESS **ADAddrArray; /**< Out: owned by the NIC handle, valid until VipCloseNic(). */
    VIP_ULONG NumAdAddrs;          /**< Out: addresses in ADAddrArray. */
} VIP_AUTODISCOVERY_LIST;

/* ---------------------------------------------------------------------------------------------
 * Descriptors: the same byte offsets on every CPU, fields in the CPU's own byte order
 * ------------------------------------------------------------------------------------------ */

struct _VIP_DESCRIPTOR;

/**
 * A pointer in 64 bits: assign AddressBits, Address or Descriptor as you like, on either byte
 * order.
 *
 * Address and Descriptor are the low half on a 32-bit CPU. There the library ignores the high half
 * of an address of local memory, and of remote memory if the peer runs on a 32-bit CPU too, so that
 * a program need not clear it. To name memory of a 64-bit peer it assigns AddressBits.
 */
typedef union _VIP_PVOID64 {
    VIP_UINT64 AddressBits; /**< The address as a number. */
#if defined(__BYTE_ORDER__) && defined(__ORDER_BIG_ENDIAN__) && defined(__SIZEOF_POINTER__) && \
    (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) && (__SIZEOF_POINTER__ == 4)
    VIPL_EXTENSION struct {
        VIP_UINT32 AddressHigh;
        VIPL_EXTENSION union {
            VIP_PVOID Address;
            struct _VIP_DESCRIPTOR *Descriptor;
        };
    };
#else
    VIP_PVOID Address;                  /**< The address as a pointer, */
    struct _VIP_DESCRIPTOR *Descriptor; /**< or as one of a descriptor. */
#endif
} VIP_PVOID64;

/**
 * The first 32 bytes of a descriptor. The library writes Status, Length and ImmediateData only.
 * They are volatile, as in the originals, because other threads write them: a program may poll
 * Status. When it sees #VIP_STATUS_DONE there, it takes the descriptor with VipSendDone() or
 * VipRecvDone() before it reads the rest: that orders the accesses on every CPU.
 *
 * Length is ignored when a descriptor is posted: the bytes to move are the sum of the data
 * segments' lengths, in a send queue and in a receive queue. A program that writes the sum here, as
 * the originals required, may go on doing so. When the descriptor is complete without an error,
 * Length is the number of bytes moved: those of the message for a receive, and those written to the
 * remote address for a receive that an RDMA Write with immediate data used. With an error it is 0.
 */
typedef struct _VIP_CONTROL_SEGMENT {
    VIP_PVOID64 Next;                  /**< The program's own; neither read nor written. */
    VIP_MEM_HANDLE NextHandle;         /**< The program's own; neither read nor written. */
    VIP_UINT16 SegCount;               /**< Segments that follow, an RDMA address segment included. */
    VIP_UINT16 Control;                /**< VIP_CONTROL_... bits. */
    VIP_UINT32 Reserved;               /**< Zero. */
    volatile VIP_UINT32 ImmediateData; /**< In: of a send. Out: of a receive that got some. */
    volatile VIP_UINT32 Length;        /**< In: ignored. Out: bytes moved. */
    volatile VIP_UINT32 Status;        /**< VIP_STATUS_... bits; written last, so it may be polled. */
} VIP_CONTROL_SEGMENT;

/** The remote memory of an RDMA operation: always the first segment. */
typedef struct VIPL_MAY_ALIAS _VIP_ADDRESS_SEGMENT {
    VIP_PVOID64 Data;      /**< Address in the remote program. */
    VIP_MEM_HANDLE Handle; /**< The remote program's handle. */
    VIP_UINT32 Reserved;   /**< Zero. */
} VIP_ADDRESS_SEGMENT;

/** A piece of local memory. */
typedef struct VIPL_MAY_ALIAS _VIP_DATA_SEGMENT {
    VIP_PVOID64 Data;      /**< Any byte address inside the region. */
    VIP_MEM_HANDLE Handle; /**< The region. */
    VIP_UINT32 Length;     /**< Bytes; 0 is legal. */
} VIP_DATA_SEGMENT;

/** A segment of a descriptor. */
typedef union _VIP_DESCRIPTOR_SEGMENT {
    VIP_ADDRESS_SEGMENT Remote; /**< The first one of an RDMA operation. */
    VIP_DATA_SEGMENT Local;     /**< The others. */
} VIP_DESCRIPTOR_SEGMENT;

/**
 * A unit of work, under two sets of names for the same bytes. CS and DS are those of Intel, M-VIA
 * and Giganet with VIPL095. Control and Data are those of Giganet 1.0, where a pointer to Data[0]
 * is cast to one to a VIP_ADDRESS_SEGMENT for RDMA. Segments beyond the declared ones follow in
 * memory.
 */
VIPL_EXTENSION typedef struct _VIP_DESCRIPTOR {
    VIPL_EXTENSION union {
        VIP_CONTROL_SEGMENT CS;
        VIP_CONTROL_SEGMENT Control;
    };
    VIPL_EXTENSION union {
        VIP_DESCRIPTOR_SEGMENT DS[2];
        VIPL_EXTENSION struct { /* as the last member of a structure it may be indexed beyond its end */
            VIP_DATA_SEGMENT Data[1];
        };
    };
} VIP_DESCRIPTOR;

#define VIP_CONTROL_OP_SENDRECV 0x0000  /**< A send or a receive. */
#define VIP_CONTROL_OP_RDMAWRITE 0x0001 /**< An RDMA Write. */
#define VIP_CONTROL_OP_RDMAREAD 0x0002  /**< An RDMA Read. */
#define VIP_CONTROL_OP_RESERVED 0x0003  /**< Not an operation. */
#define VIP_CONTROL_OP_MASK 0x0003      /**< The bits of the operation. */
#define VIP_CONTROL_IMMEDIATE 0x0004    /**< ImmediateData travels too. */
#define VIP_CONTROL_QFENCE 0x0008       /**< Wait for this queue's earlier RDMA Reads. */
#define VIP_CONTROL_RESERVED 0xFFF0     /**< Bits that are 0. */

#define VIP_STATUS_DONE 0x00000001               /**< Complete, well or not. */
#define VIP_STATUS_FORMAT_ERROR 0x00000002       /**< The descriptor is malformed. */
#define VIP_STATUS_PROTECTION_ERROR 0x00000004   /**< A local segment is outside its region or tag. */
#define VIP_STATUS_LENGTH_ERROR 0x00000008       /**< The data does not fit. */
#define VIP_STATUS_PARTIAL_ERROR 0x00000010      /**< Some of the data was moved. */
#define VIP_STATUS_DESC_FLUSHED_ERROR 0x00000020 /**< Not executed: the VI was or became unusable. */
#define VIP_STATUS_TRANSPORT_ERROR 0x00000040    /**< The transport failed. */
#define VIP_STATUS_RDMA_PROT_ERROR 0x00000080    /**< The remote memory refused. */
#define VIP_STATUS_REMOTE_DESC_ERROR 0x00000100  /**< The remote descriptor failed. */
#define VIP_STATUS_ERROR_MASK 0x000001FE         /**< The bits of errors. */

#define VIP_STATUS_OP_SEND 0x00000000              /**< It was a send. */
#define VIP_STATUS_OP_RECEIVE 0x00010000           /**< It was a receive. */
#define VIP_STATUS_OP_RDMA_WRITE 0x00020000        /**< It was an RDMA Write. */
#define VIP_STATUS_OP_REMOTE_RDMA_WRITE 0x00030000 /**< A receive completed by RDMA Write with immediate. */
#define VIP_STATUS_OP_RDMA_READ 0x00040000         /**< It was an RDMA Read. */
#define VIP_STATUS_OP_MASK 0x00070000              /**< The bits of the operation. */
#define VIP_STATUS_IMMEDIATE 0x00080000            /**< ImmediateData was received. */
#define VIP_STATUS_RESERVED 0xFFF0FE00             /**< Bits that are 0. */

/** What VipErrorCallback()'s handler is given; valid during the call. */
typedef struct _VIP_ERROR_DESCRIPTOR {
    VIP_NIC_HANDLE NicHandle;       /**< Of the VI or completion queue. */
    VIP_VI_HANDLE ViHandle;         /**< NULL where the error is of no VI. */
    VIP_CQ_HANDLE CQHandle;         /**< NULL where the error is of no completion queue. */
    VIP_DESCRIPTOR *DescriptorPtr;  /**< NULL where the error is of no descriptor. */
    VIP_ULONG OpCode;               /**< VIP_STATUS_OP_... of the operation that failed. */
    VIP_RESOURCE_CODE ResourceCode; /**< Which of the above the error is about. */
    VIP_ERROR_CODE ErrorCode;       /**< What has happened. */
} VIP_ERROR_DESCRIPTOR;

#ifndef DOXYGEN
/* The layout above is the interface: refuse packing and alignment switches that would change it. */
typedef char vipl_descriptor_is_64_bytes[sizeof(VIP_DESCRIPTOR) == 64 ? 1 : -1];
typedef char vipl_control_segment_is_32_bytes[sizeof(VIP_CONTROL_SEGMENT) == 32 ? 1 : -1];
typedef char vipl_data_segment_is_16_bytes[sizeof(VIP_DESCRIPTOR_SEGMENT) == 16 ? 1 : -1];
#endif

/** See VipErrorCallback(). */
typedef void(VI_CALL *VIP_ERROR_HANDLER)(VIP_PVOID Context, VIP_ERROR_DESCRIPTOR *ErrorDesc);
/** See VipSendNotify() and VipRecvNotify(). */
typedef void(VI_CALL *VIP_VI_CALLBACK)(VIP_PVOID Context, VIP_NIC_HANDLE NicHandle, VIP_VI_HANDLE ViHandle,
                                       VIP_DESCRIPTOR *Descriptor);
/** See VipCQNotify(). */
typedef void(VI_CALL *VIP_CQ_CALLBACK)(VIP_PVOID Context, VIP_NIC_HANDLE NicHandle, VIP_VI_HANDLE ViHandle,
                                       VIP_BOOLEAN RecvQueue);

/* Define VIPL_NO_PROTOTYPES to get the types alone and to own the functions' names: for programs
 * that fill function pointers of those names with dlsym(). */
#ifndef VIPL_NO_PROTOTYPES

/* ---------------------------------------------------------------------------------------------
 * NIC
 * ------------------------------------------------------------------------------------------ */

/**
 * Open a device. Each call gives an independent NIC handle, also for a device that is open already.
 *
 * @param DeviceName  "loopback", or an alias from VIPL_DEVICE_ALIASES. NULL and "" are the default
 *                    device, VIPL_DEVICE or else "loopback" [ours]; so are the spellings "VINIC",
 *                    "VINIC0", "nic0", "/dev/via_lo", "/etc/via_lo" and "/dev/clanvi0".
 * @param NicHandle   Receives the handle.
 * @retval VIP_ERROR_RESOURCE  No such device, or no memory for another handle.
 */
VIPL_API VIP_RETURN VI_CALL VipOpenNic(const VIP_CHAR *DeviceName, VIP_NIC_HANDLE *NicHandle);

/**
 * Close a NIC handle. Objects that it still owns are destroyed: VIs are disconnected (their peers
 * go to #VIP_STATE_ERROR), blocked calls return #VIP_INVALID_PARAMETER, and memory and descriptors
 * are not touched any more, so a program may have freed them before [ours].
 *
 * Waits for a callback that is running on another thread; may be called from within one.
 *
 * @param NicHandle  From VipOpenNic().
 * @retval VIP_ERROR_RESOURCE A peer on this host has been stopped in the middle of an RDMA
 *         operation on memory of this NIC handle, and would go on with it when it continues; see
 *         VipDeregisterMem(). Nothing has changed, the handle is open as before, and the memory
 *         must stay [ours].
 */
VIPL_API VIP_RETURN VI_CALL VipCloseNic(VIP_NIC_HANDLE NicHandle);

/**
 * Read a device's name, address and limits.
 *
 * @param NicHandle   From VipOpenNic().
 * @param Attributes  Receives them; LocalNicAddress points into the NIC handle.
 */
VIPL_API VIP_RETURN VI_CALL VipQueryNic(VIP_NIC_HANDLE NicHandle, VIP_NIC_ATTRIBUTES *Attributes);

/* ---------------------------------------------------------------------------------------------
 * Protection tags and memory
 * ------------------------------------------------------------------------------------------ */

/**
 * Create a protection tag. A VI works with memory of its own tag only (reference, section 4.2).
 *
 * @param NicHandle  From VipOpenNic().
 * @param Ptag       Receives the tag.
 * @retval VIP_ERROR_RESOURCE  MaxPtags are in use.
 */
VIPL_API VIP_RETURN VI_CALL VipCreatePtag(VIP_NIC_HANDLE NicHandle, VIP_PROTECTION_HANDLE *Ptag);

/**
 * Destroy a protection tag.
 *
 * @param NicHandle  The tag's NIC handle.
 * @param Ptag       From VipCreatePtag().
 * @retval VIP_ERROR_RESOURCE  A region or a VI uses it.
 */
VIPL_API VIP_RETURN VI_CALL VipDestroyPtag(VIP_NIC_HANDLE NicHandle, VIP_PROTECTION_HANDLE Ptag);

/**
 * Register memory. Buffers, and descriptors themselves, must lie in registered regions. Regions may
 * overlap; the same range may be registered many times, with different tags and rights. What the
 * program may do with a page counts when bytes move: it may be protected when it is registered and
 * opened later, and a region may have guard pages. A card of hardware keeps pages as they are now,
 * and memory that it cannot keep is refused [ours].
 *
 * @param NicHandle  From VipOpenNic().
 * @param Address    First byte; any alignment.
 * @param Length     Bytes, at least 1; Address + Length must not wrap.
 * @param MemAttribs Tag and RDMA rights. NULL: default tag, no RDMA [ours].
 * @param MemHandle  Receives the handle: random, never 0 and never 0xFFFFFFFF.
 * @retval VIP_INVALID_PTAG      The tag is not a live tag of this NIC handle.
 * @retval VIP_INVALID_RDMAREAD  RDMA Read asked for where the device has none.
 * @retval VIP_ERROR_RESOURCE    MaxRegisterRegions, MaxRegisterBytes or MaxRegisterBlockBytes.
 * @par fork
 * A fork changes nothing for the parent's regions: no page is marked or hidden.
 */
VIPL_API VIP_RETURN VI_CALL VipRegisterMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address, VIP_ULONG Length,
                                           VIP_MEM_ATTRIBUTES *MemAttribs, VIP_MEM_HANDLE *MemHandle);

/**
 * End a registration. When this succeeds no transfer touches the region through this handle any
 * more: operations under way are over, later ones fail their protection check. The memory itself
 * may be gone already.
 *
 * @param NicHandle  The region's NIC handle.
 * @param Address    The address it was registered at.
 * @param MemHandle  From VipRegisterMem().
 * @retval VIP_ERROR_RESOURCE A peer on this host has been stopped (by a debugger or SIGSTOP, for
 *         instance) in the middle of an RDMA operation on memory of this NIC handle, has not
 *         finished it within a second, and could still write when it continues. Nothing has
 *         changed, the region is registered as before. It succeeds once the peer goes on, or has
 *         ended. Only regions with an RDMA right can be held up so [ours].
 */
VIPL_API VIP_RETURN VI_CALL VipDeregisterMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address,
                                             VIP_MEM_HANDLE MemHandle);

/**
 * Read a region's attributes.
 *
 * @param NicHandle   The region's NIC handle.
 * @param Address     The address it was registered at.
 * @param MemHandle   From VipRegisterMem().
 * @param MemAttribs  Receives them; Ptag is the default tag's handle if none was given.
 */
VIPL_API VIP_RETURN VI_CALL VipQueryMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address, VIP_MEM_HANDLE MemHandle,
                                        VIP_MEM_ATTRIBUTES *MemAttribs);

/**
 * Change a region's tag and rights, as synchronously as VipDeregisterMem() ends them.
 *
 * @param NicHandle   The region's NIC handle.
 * @param Address     The address it was registered at.
 * @param MemHandle   From VipRegisterMem().
 * @param MemAttribs  The new ones; not NULL.
 * @retval VIP_INVALID_PTAG      The tag is not a live tag of this NIC handle.
 * @retval VIP_INVALID_RDMAREAD  RDMA Read asked for where the device has none.
 * @retval VIP_ERROR_RESOURCE    As of VipDeregisterMem(): nothing has changed.
 */
VIPL_API VIP_RETURN VI_CALL VipSetMemAttributes(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address,
                                                VIP_MEM_HANDLE MemHandle, VIP_MEM_ATTRIBUTES *MemAttribs);

/* ---------------------------------------------------------------------------------------------
 * VIs
 * ------------------------------------------------------------------------------------------ */

/**
 * Create a VI, in #VIP_STATE_IDLE.
 *
 * @param NicHandle     From VipOpenNic().
 * @param ViAttribs     Reliability level, transfer size, tag, RDMA enables.
 * @param SendCQHandle  Where sends report, or NULL: they are waited for on the VI itself.
 * @param RecvCQHandle  The same for receives; may be the same queue.
 * @param ViHandle      Receives the handle.
 * @retval VIP_INVALID_RELIABILITY_LEVEL  Not exactly one supported level.
 * @retval VIP_INVALID_MTU                MaxTransferSize is 0 or above the device's.
 * @retval VIP_INVALID_QOS                QoS is not NULL.
 * @retval VIP_INVALID_PTAG               The tag is not a live tag of this NIC handle.
 * @retval VIP_INVALID_RDMAREAD           RDMA Read enabled at a level that has none.
 * @retval VIP_ERROR_RESOURCE             MaxVI, or no memory.
 */
VIPL_API VIP_RETURN VI_CALL VipCreateVi(VIP_NIC_HANDLE NicHandle, VIP_VI_ATTRIBUTES *ViAttribs,
                                        VIP_CQ_HANDLE SendCQHandle, VIP_CQ_HANDLE RecvCQHandle,
                                        VIP_VI_HANDLE *ViHandle);

/**
 * Destroy a VI. Descriptors queued or not reaped are forgotten: their memory is not touched, their
 * entries leave the completion queues [ours]. Calls blocked on the VI return
 * #VIP_INVALID_PARAMETER.
 *
 * @param ViHandle  From VipCreateVi().
 * @retval VIP_INVALID_STATE  The VI is not IDLE: disconnect it first.
 */
VIPL_API VIP_RETURN VI_CALL VipDestroyVi(VIP_VI_HANDLE ViHandle);

/**
 * Read a VI's state and attributes. Any out-pointer but State may be NULL [ours].
 *
 * @param ViHandle        From VipCreateVi().
 * @param State           Receives the state, after progress: a peer's disconnect shows here.
 * @param ViAttribs       Receives the attributes.
 * @param SendQueueEmpty  Receives whether no send is posted and not reaped.
 * @param RecvQueueEmpty  The same for receives.
 */
VIPL_API VIP_RETURN VI_CALL VipQueryVi(VIP_VI_HANDLE ViHandle, VIP_VI_STATE *State,
                                       VIP_VI_ATTRIBUTES *ViAttribs, VIP_BOOLEAN *SendQueueEmpty,
                                       VIP_BOOLEAN *RecvQueueEmpty);

/**
 * Change an idle VI's attributes.
 *
 * @param ViHandle   From VipCreateVi().
 * @param ViAttribs  The new ones.
 * @retval VIP_INVALID_STATE  The VI is not IDLE. Other codes as VipCreateVi().
 */
VIPL_API VIP_RETURN VI_CALL VipSetViAttributes(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES *ViAttribs);

/**
 * Attach a pointer of the program's own to a VI (a widespread extra to 1.0).
 *
 * @param ViHandle  From VipCreateVi().
 * @param UserData  Any value; NULL at creation.
 */
VIPL_API VIP_RETURN VI_CALL VipSetUserData(VIP_VI_HANDLE ViHandle, VIP_PVOID UserData);

/**
 * The pointer that VipSetUserData() attached.
 *
 * @param ViHandle  From VipCreateVi().
 * @return The pointer; NULL for a bad handle or where none was set.
 */
VIPL_API VIP_PVOID VI_CALL VipGetUserData(VIP_VI_HANDLE ViHandle);

/* ---------------------------------------------------------------------------------------------
 * Connections: client and server
 * ------------------------------------------------------------------------------------------ */

/**
 * Wait for a connection request. Many threads may wait, on equal or different discriminators; a
 * request goes to one of them. Requests that come between two calls wait for the next one.
 *
 * @param NicHandle      From VipOpenNic().
 * @param LocalAddr      Its discriminator selects requests; 1 to MaxDiscriminatorLen bytes, or 0.
 * @param Timeout        Milliseconds.
 * @param RemoteAddr     Receives the requester's LocalAddr, lengths included. Holds at least 6
 *                       bytes of host address and MaxDiscriminatorLen bytes, or what the program
 *                       knows its requesters to use: only the bytes needed are written.
 * @param RemoteViAttribs Receives the requesting VI's attributes (Ptag NULL).
 * @param ConnHandle     Receives the request, to be accepted or rejected.
 * @retval VIP_TIMEOUT         None came.
 * @retval VIP_ERROR_RESOURCE  No memory or descriptors to listen.
 * @retval VIP_INTERRUPTED     A signal handler ran.
 */
VIPL_API VIP_RETURN VI_CALL VipConnectWait(VIP_NIC_HANDLE NicHandle, VIP_NET_ADDRESS *LocalAddr,
                                           VIP_ULONG Timeout, VIP_NET_ADDRESS *RemoteAddr,
                                           VIP_VI_ATTRIBUTES *RemoteViAttribs, VIP_CONN_HANDLE *ConnHandle);

/**
 * Accept a request with an idle VI, which is CONNECTED on success. Ends ConnHandle on success and
 * on #VIP_TIMEOUT; otherwise the request stays pending, for another VI or a rejection.
 *
 * @param ConnHandle  From VipConnectWait().
 * @param ViHandle    An idle VI of the same NIC handle.
 * @retval VIP_INVALID_STATE              The VI is not IDLE.
 * @retval VIP_INVALID_RELIABILITY_LEVEL  The two VIs' levels differ.
 * @retval VIP_INVALID_MTU                The two VIs' MaxTransferSize differ.
 * @retval VIP_INVALID_QOS                The two VIs' QoS differ.
 * @retval VIP_TIMEOUT                    The requester has gone or stopped waiting.
 * @retval VIP_ERROR_RESOURCE             No memory for the connection.
 */
VIPL_API VIP_RETURN VI_CALL VipConnectAccept(VIP_CONN_HANDLE ConnHandle, VIP_VI_HANDLE ViHandle);

/**
 * Reject a request and end its handle.
 *
 * @param ConnHandle  From VipConnectWait().
 */
VIPL_API VIP_RETURN VI_CALL VipConnectReject(VIP_CONN_HANDLE ConnHandle);

/**
 * Ask a waiting program for a connection, and wait for its answer. The listener may come later
 * than the request. After a failure the VI is IDLE with its receives still posted, and may ask
 * again.
 *
 * @param ViHandle         An idle VI.
 * @param LocalAddr        The requester's name, which the listener sees; binds nothing.
 * @param RemoteAddr       Host, and the discriminator the listener waits on.
 * @param Timeout          Milliseconds.
 * @param RemoteViAttribs  Receives the accepting VI's attributes; may be NULL [ours].
 * @retval VIP_TIMEOUT A listener is there and did not answer: a NIC handle waits, or has waited, on
 *         that discriminator, and its program has taken the request, is busy with something else,
 *         or is stopped [ours].
 * @retval VIP_REJECT         The listener rejected it.
 * @retval VIP_NO_MATCH The host is there and no open NIC handle has waited on that discriminator. A
 *         NIC handle goes on listening on the last 64 that its program has waited on [ours].
 * @retval VIP_NOT_REACHABLE  No such host on this device.
 * @retval VIP_INVALID_STATE  The VI is not IDLE.
 * @retval VIP_INTERRUPTED    A signal handler ran; the VI is IDLE again.
 * @retval VIP_ERROR_RESOURCE No memory, descriptors or, over tcp, local ports.
 */
VIPL_API VIP_RETURN VI_CALL VipConnectRequest(VIP_VI_HANDLE ViHandle, VIP_NET_ADDRESS *LocalAddr,
                                              VIP_NET_ADDRESS *RemoteAddr, VIP_ULONG Timeout,
                                              VIP_VI_ATTRIBUTES *RemoteViAttribs);

/**
 * End a connection, or a pending connect. The VI is IDLE afterwards; descriptors still in its
 * queues are flushed and can be reaped; the peer goes to #VIP_STATE_ERROR
 * with #VIP_ERROR_CONN_LOST. On a reliable VI what was sent before is delivered first, and RDMA
 * Reads of the peer that have come are answered, waiting up to VIPL_LINGER milliseconds for the
 * peer [ours]. Succeeds on a VI that is idle, or whose peer has gone.
 *
 * RDMA operations of the peer through this VI are over when it returns. There is one exception: an
 * operation that a peer on this host has begun and, being stopped, does not finish within a second.
 * The memory that it names stays registered; only the success of VipDeregisterMem() means that not
 * one byte of it can change any more [ours].
 *
 * @param ViHandle  From VipCreateVi().
 */
VIPL_API VIP_RETURN VI_CALL VipDisconnect(VIP_VI_HANDLE ViHandle);

/* ---------------------------------------------------------------------------------------------
 * Connections: peer to peer
 * ------------------------------------------------------------------------------------------ */

/**
 * Start a symmetric connect: both programs request, in any order, each naming the other's local
 * address as its remote one; simultaneous requests make exactly one connection. Never blocks; the
 * VI is #VIP_STATE_CONNECT_PENDING.
 *
 * @param ViHandle    An idle VI.
 * @param LocalAddr   This side.
 * @param RemoteAddr  The other side; may equal LocalAddr on one host.
 * @param Timeout     Milliseconds until VipConnectPeerDone() and VipConnectPeerWait() give up.
 * @retval VIP_INVALID_STATE   The VI is not IDLE.
 * @retval VIP_NOT_REACHABLE   No such host on this device.
 * @retval VIP_ERROR_RESOURCE  No memory or descriptors.
 */
VIPL_API VIP_RETURN VI_CALL VipConnectPeerRequest(VIP_VI_HANDLE ViHandle, VIP_NET_ADDRESS *LocalAddr,
                                                  VIP_NET_ADDRESS *RemoteAddr, VIP_ULONG Timeout);

/**
 * Ask whether a symmetric connect is over. Anything but #VIP_NOT_DONE ends it.
 *
 * @param ViHandle         The VI of VipConnectPeerRequest().
 * @param RemoteViAttribs  Receives the peer's attributes; may be NULL [ours].
 * @retval VIP_NOT_DONE       Not yet.
 * @retval VIP_TIMEOUT        The time is up: some request was there, none matched in time.
 * @retval VIP_NO_MATCH       The time is up, and no request for this address came.
 * @retval VIP_INVALID_STATE  No symmetric connect is under way on this VI.
 * @retval VIP_INVALID_RELIABILITY_LEVEL, VIP_INVALID_MTU, VIP_INVALID_QOS  The two VIs disagree.
 */
VIPL_API VIP_RETURN VI_CALL VipConnectPeerDone(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES *RemoteViAttribs);

/**
 * Wait until a symmetric connect is over. Codes as VipConnectPeerDone(), and #VIP_INTERRUPTED,
 * after which the connect is still under way.
 *
 * @param ViHandle         The VI of VipConnectPeerRequest().
 * @param RemoteViAttribs  Receives the peer's attributes; may be NULL [ours].
 */
VIPL_API VIP_RETURN VI_CALL VipConnectPeerWait(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES *RemoteViAttribs);

/* ---------------------------------------------------------------------------------------------
 * Data transfer
 * ------------------------------------------------------------------------------------------ */

/**
 * Queue a descriptor for sending, RDMA Write or RDMA Read. Never blocks.
 *
 * The descriptor and every buffer it names belong to the library until VipSendDone(),
 * VipSendWait(), a notification or a completion queue hands the descriptor back. How the transfer
 * went is in the descriptor, not in the return code: on an IDLE, pending or broken VI the
 * descriptor comes back with #VIP_STATUS_DESC_FLUSHED_ERROR at once; an unaligned one, or one that
 * reaches beyond its region, with #VIP_STATUS_FORMAT_ERROR. One whose first 32 bytes its region
 * does not cover is not touched at all: #VIP_INVALID_PARAMETER.
 *
 * @param ViHandle       From VipCreateVi().
 * @param DescriptorPtr  On a multiple of 64, inside MemoryHandle. Not NULL.
 * @param MemoryHandle   The region that holds the descriptor.
 * @retval VIP_ERROR_RESOURCE  MaxDescriptorsPerQueue are posted and not reaped.
 */
VIPL_API VIP_RETURN VI_CALL VipPostSend(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR *DescriptorPtr,
                                        VIP_MEM_HANDLE MemoryHandle);

/**
 * Queue a descriptor for receiving one message. Never blocks. Receives may be posted before the VI
 * is connected; messages fill them in posting order. Otherwise as VipPostSend().
 *
 * The segments are checked when a message comes, and only where its bytes go: a receive may reach
 * beyond its region if the message does not, else it ends with #VIP_STATUS_PROTECTION_ERROR. It may
 * be longer than the VI's MaxTransferSize, which no message is.
 *
 * @param ViHandle       From VipCreateVi().
 * @param DescriptorPtr  On a multiple of 64, inside MemoryHandle. Not NULL.
 * @param MemoryHandle   The region that holds the descriptor.
 * @retval VIP_ERROR_RESOURCE  MaxDescriptorsPerQueue are posted and not reaped.
 */
VIPL_API VIP_RETURN VI_CALL VipPostRecv(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR *DescriptorPtr,
                                        VIP_MEM_HANDLE MemoryHandle);

/**
 * Take the oldest send descriptor if it is complete. Works on a queue bound to a completion queue
 * too: its entry goes with it.
 *
 * @param ViHandle       From VipCreateVi().
 * @param DescriptorPtr  Receives the descriptor, or NULL.
 * @retval VIP_DESCRIPTOR_ERROR  It failed; *DescriptorPtr is set and its Status says how.
 * @retval VIP_NOT_DONE          The oldest is not complete, or none is posted.
 */
VIPL_API VIP_RETURN VI_CALL VipSendDone(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR **DescriptorPtr);

/**
 * Take the oldest receive descriptor if it is complete; as VipSendDone().
 *
 * @param ViHandle       From VipCreateVi().
 * @param DescriptorPtr  Receives the descriptor, or NULL.
 * @retval VIP_DESCRIPTOR_ERROR  It failed; *DescriptorPtr is set and its Status says how.
 * @retval VIP_NOT_DONE          The oldest is not complete, or none is posted.
 */
VIPL_API VIP_RETURN VI_CALL VipRecvDone(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR **DescriptorPtr);

/**
 * Wait for the oldest send descriptor and take it.
 *
 * @param ViHandle       From VipCreateVi().
 * @param Timeout        Milliseconds.
 * @param DescriptorPtr  Receives the descriptor, or NULL.
 * @retval VIP_DESCRIPTOR_ERROR  It failed; *DescriptorPtr is set and its Status says how.
 * @retval VIP_TIMEOUT           Not complete in time, or none posted.
 * @retval VIP_ERROR_RESOURCE    The queue is bound to a completion queue: wait there.
 * @retval VIP_INTERRUPTED       A signal handler ran.
 */
VIPL_API VIP_RETURN VI_CALL VipSendWait(VIP_VI_HANDLE ViHandle, VIP_ULONG Timeout,
                                        VIP_DESCRIPTOR **DescriptorPtr);

/**
 * Wait for the oldest receive descriptor and take it; as VipSendWait().
 *
 * @param ViHandle       From VipCreateVi().
 * @param Timeout        Milliseconds.
 * @param DescriptorPtr  Receives the descriptor, or NULL.
 * @retval VIP_DESCRIPTOR_ERROR  It failed; *DescriptorPtr is set and its Status says how.
 * @retval VIP_TIMEOUT           Not complete in time, or none posted.
 * @retval VIP_ERROR_RESOURCE    The queue is bound to a completion queue: wait there.
 * @retval VIP_INTERRUPTED       A signal handler ran.
 */
VIPL_API VIP_RETURN VI_CALL VipRecvWait(VIP_VI_HANDLE ViHandle, VIP_ULONG Timeout,
                                        VIP_DESCRIPTOR **DescriptorPtr);

/**
 * Have a handler called for the next send completion. One registration, one call, on the library's
 * callback thread, with the descriptor already taken from the queue; several registrations queue
 * up. A completion that is there already counts. Destroying the VI drops registrations.
 *
 * @param ViHandle  From VipCreateVi().
 * @param Context   Passed to the handler.
 * @param Handler   Not NULL.
 * @retval VIP_ERROR_RESOURCE The queue is bound to a completion queue, or no memory or thread.
 * @retval VIP_ERROR_NOT_SUPPORTED  VIPL_PROGRESS=inline forbids library threads.
 */
VIPL_API VIP_RETURN VI_CALL VipSendNotify(VIP_VI_HANDLE ViHandle, VIP_PVOID Context, VIP_VI_CALLBACK Handler);

/**
 * Have a handler called for the next receive completion; as VipSendNotify().
 *
 * @param ViHandle  From VipCreateVi().
 * @param Context   Passed to the handler.
 * @param Handler   Not NULL.
 * @retval VIP_ERROR_RESOURCE The queue is bound to a completion queue, or no memory or thread.
 * @retval VIP_ERROR_NOT_SUPPORTED  VIPL_PROGRESS=inline forbids library threads.
 */
VIPL_API VIP_RETURN VI_CALL VipRecvNotify(VIP_VI_HANDLE ViHandle, VIP_PVOID Context, VIP_VI_CALLBACK Handler);

/* ---------------------------------------------------------------------------------------------
 * Completion queues
 * ------------------------------------------------------------------------------------------ */

/**
 * Create a completion queue.
 *
 * @param NicHandle   From VipOpenNic().
 * @param EntryCount  1 to MaxCQEntries. A floor: software devices never overflow, unless
 *                    VIPL_STRICT=cq asks for a hardware queue's behaviour [ours].
 * @param CQHandle    Receives the handle.
 * @retval VIP_ERROR_RESOURCE  MaxCQ or MaxCQEntries, or no memory.
 */
VIPL_API VIP_RETURN VI_CALL VipCreateCQ(VIP_NIC_HANDLE NicHandle, VIP_ULONG EntryCount,
                                        VIP_CQ_HANDLE *CQHandle);

/**
 * Destroy a completion queue. Calls blocked on it return #VIP_INVALID_PARAMETER.
 *
 * @param CQHandle  From VipCreateCQ().
 * @retval VIP_ERROR_RESOURCE  A VI uses it.
 */
VIPL_API VIP_RETURN VI_CALL VipDestroyCQ(VIP_CQ_HANDLE CQHandle);

/**
 * Change a completion queue's size; entries and blocked waiters stay.
 *
 * @param CQHandle    From VipCreateCQ().
 * @param EntryCount  1 to MaxCQEntries.
 * @retval VIP_ERROR_RESOURCE  More entries than that are queued now, or above MaxCQEntries.
 */
VIPL_API VIP_RETURN VI_CALL VipResizeCQ(VIP_CQ_HANDLE CQHandle, VIP_ULONG EntryCount);

/**
 * Take the oldest entry. Entries come in completion order across all VIs; the descriptor itself is
 * then taken with VipSendDone() or VipRecvDone().
 *
 * @param CQHandle   From VipCreateCQ().
 * @param ViHandle   Receives the VI, or NULL.
 * @param RecvQueue  Receives #VIP_TRUE for its receive queue, #VIP_FALSE for its send queue.
 * @retval VIP_NOT_DONE  No entry.
 */
VIPL_API VIP_RETURN VI_CALL VipCQDone(VIP_CQ_HANDLE CQHandle, VIP_VI_HANDLE *ViHandle,
                                      VIP_BOOLEAN *RecvQueue);

/**
 * Wait for an entry and take it.
 *
 * @param CQHandle   From VipCreateCQ().
 * @param Timeout    Milliseconds.
 * @param ViHandle   Receives the VI, or NULL.
 * @param RecvQueue  Receives #VIP_TRUE for its receive queue, #VIP_FALSE for its send queue.
 * @retval VIP_TIMEOUT      None in time.
 * @retval VIP_INTERRUPTED  A signal handler ran.
 */
VIPL_API VIP_RETURN VI_CALL VipCQWait(VIP_CQ_HANDLE CQHandle, VIP_ULONG Timeout, VIP_VI_HANDLE *ViHandle,
                                      VIP_BOOLEAN *RecvQueue);

/**
 * Have a handler called with the next entry, which it has taken; as VipSendNotify().
 *
 * @param CQHandle  From VipCreateCQ().
 * @param Context   Passed to the handler.
 * @param Handler   Not NULL.
 * @retval VIP_ERROR_RESOURCE       No memory or thread.
 * @retval VIP_ERROR_NOT_SUPPORTED  VIPL_PROGRESS=inline forbids library threads.
 */
VIPL_API VIP_RETURN VI_CALL VipCQNotify(VIP_CQ_HANDLE CQHandle, VIP_PVOID Context, VIP_CQ_CALLBACK Handler);

/* ---------------------------------------------------------------------------------------------
 * Asynchronous errors, management, names
 * ------------------------------------------------------------------------------------------ */

/**
 * Set the handler that is called for asynchronous errors.
 *
 * @param NicHandle  From VipOpenNic().
 * @param Context    Passed to the handler.
 * @param Handler    Called on the callback thread, once per error, in order. NULL: the default,
 *                   which logs one line at VIPL_LOG=error [ours].
 * @retval VIP_ERROR_RESOURCE       No thread.
 * @retval VIP_ERROR_NOT_SUPPORTED  VIPL_PROGRESS=inline forbids library threads.
 */
VIPL_API VIP_RETURN VI_CALL VipErrorCallback(VIP_NIC_HANDLE NicHandle, VIP_PVOID Context,
                                             VIP_ERROR_HANDLER Handler);

/**
 * Ask the provider about itself and its surroundings.
 *
 * @param NicHandle  From VipOpenNic().
 * @param InfoType   #VIP_SMI_AUTODISCOVERY.
 * @param SysManInfo A VIP_AUTODISCOVERY_LIST; the addresses found stay the NIC handle's.
 * @retval VIP_ERROR_NOT_SUPPORTED  Unknown InfoType.
 */
VIPL_API VIP_RETURN VI_CALL VipQuerySystemManagementInfo(VIP_NIC_HANDLE NicHandle, VIP_ULONG InfoType,
                                                         VIP_PVOID SysManInfo);

/**
 * Get the name service ready. Optional and repeatable here.
 *
 * @param NicHandle   From VipOpenNic().
 * @param NSInitInfo  Ignored; NULL.
 */
VIPL_API VIP_RETURN VI_CALL VipNSInit(VIP_NIC_HANDLE NicHandle, VIP_PVOID NSInitInfo);

/**
 * Find a host's address by its name.
 *
 * @param NicHandle  From VipOpenNic().
 * @param Name       NUL-terminated, with or without a domain.
 * @param Address    Receives the host address; room for NicAddressLen bytes. DiscriminatorLen is
 *                   set to 0; what the lengths hold on input does not matter.
 * @param NameIndex  0 for the first address of the host, and so on.
 * @retval VIP_ERROR_NAMESERVICE  Unknown name, or no such index.
 */
VIPL_API VIP_RETURN VI_CALL VipNSGetHostByName(VIP_NIC_HANDLE NicHandle, VIP_CHAR *Name,
                                               VIP_NET_ADDRESS *Address, VIP_ULONG NameIndex);

/**
 * Find a host's name by its address.
 *
 * @param NicHandle  From VipOpenNic().
 * @param Address    Its host address is looked up; the discriminator does not matter.
 * @param Name       Receives the NUL-terminated name.
 * @param NameLen    In: bytes at Name. Out: bytes needed, the NUL included.
 * @retval VIP_ERROR_RESOURCE     *NameLen is too small, and now holds the size needed.
 * @retval VIP_ERROR_NAMESERVICE  Unknown address.
 */
VIPL_API VIP_RETURN VI_CALL VipNSGetHostByAddr(VIP_NIC_HANDLE NicHandle, VIP_NET_ADDRESS *Address,
                                               VIP_CHAR *Name, VIP_ULONG *NameLen);

/**
 * End the use of the name service. Repeatable; look-ups still work afterwards [ours].
 *
 * @param NicHandle  From VipOpenNic().
 */
VIPL_API VIP_RETURN VI_CALL VipNSShutdown(VIP_NIC_HANDLE NicHandle);

#endif /* VIPL_NO_PROTOTYPES */

#ifdef __cplusplus
}
#endif

#endif
