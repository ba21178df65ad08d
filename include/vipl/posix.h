/* SPDX-License-Identifier: MIT */
/**
 * @file posix.h
 * What POSIX systems need beyond VIPL 1.0, and some conveniences. A program that does not include this file
 * gets the safe default of everything here.
 *
 * The conventions of vipl.h hold. Functions of this file are named Vipx..., and are not part of VIPL 1.0. Those that take a
 * signal mask are declared where <signal.h> has sigset_t.
 */
#ifndef VIPL_POSIX_H
#define VIPL_POSIX_H

#include <signal.h>
#include <stddef.h>

#include "vipl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------
 * Sharing: objects that a process and its children have in common
 * ------------------------------------------------------------------------------------------ */

/** For VipxOpenNic(): what is made on the NIC handle is shareable. */
#define VIPX_SHAREABLE ((VIP_ULONG)1)

/**
 * VipOpenNic(), with a choice. With #VIPX_SHAREABLE the NIC handle, and each VI, completion queue, protection tag, memory
 * region and connection request on it, is one object in this process and in the children it forks from then on, as an open
 * file is: the handles mean the same in all of them, whoever posts, reaps, waits, queries, connects or disconnects.
 * Without the flag it is VipOpenNic(), and a forked child finds that inherited handles are none.
 *
 * - **References.** A process holds what it made and what it inherited; elsewhere the handle is that of nothing, and every
 *   function returns VIP_INVALID_PARAMETER. VipDestroyVi(), VipDestroyCQ(),
 *   VipDestroyPtag(), VipDeregisterMem() and VipCloseNic() drop the caller's reference, and the handle is invalid in this process
 *   afterwards; the last one acts, as in VIPL 1.0. So all but the last may drop a VI that is connected. A process that
 *   exits, is killed or calls exec drops its references; what nobody holds any more is disconnected and destroyed.
 *   No holder waits for another one, dead or alive.
 * - **Forks** may come from any thread, from several at once, and from signal handlers, and wait for nobody. Only while the
 *   server (see below) is stopped and has a few hundred forks to hear of, a fork waits for a second at most; its child
 *   has no shared objects then.
 * - **Rights** are those with which the program opened its first shareable NIC handle. A process that has changed its users,
 *   groups or capabilities since then uses what is there; but VipxOpenNic() with #VIPX_SHAREABLE, VipConnectWait(),
 *   VipConnectRequest(), VipConnectPeerRequest(), the name service, and VipRegisterMem() of memory that is not
 *   VipxAllocShared()'s are VIP_ERROR_RESOURCE.
 * - **Completions** go to whoever takes them first, each to one. A completion queue that a killed process was told
 *   of a completion by, and did not take it, tells another one; so after a death it may name a queue whose completion
 *   another process has just taken: VipRecvDone() then says VIP_NOT_DONE. A process that does not hold a VI is
 *   never told of it, but should not wait on its completion queue: it looks every few milliseconds while others have
 *   something to take there.
 * - **Memory** that is registered, descriptors too, lies in what VipxAllocShared() gives, or in a MAP_SHARED mapping that the
 *   program had already when it opened its first shareable NIC handle. Other memory is VIP_INVALID_PARAMETER.
 * - **Limits.** VipQueryNic() tells those of shareable NIC handles. All entries of a completion queue are kept: EntryCount
 *   is a minimum.
 * - **Handlers** run in the process that registered them, on one library thread for all its shareable NIC handles. An error
 *   is reported in each process that holds the VI and has an error handler on the NIC handle.
 *
 * The objects live in a process that the library forks off with the first shareable NIC handle, the server: it has no
 * descriptors of the program but the standard error output, is seen by none of its wait() calls, and ends with the
 * last holder. Open the first shareable NIC handle early: what the program has in memory then is copied as it is
 * changed. If the server is killed, calls on shared objects return VIP_ERROR_RESOURCE, until a
 * shareable NIC handle is opened anew.
 *
 * @param DeviceName  As for VipOpenNic().
 * @param Flags       0, or #VIPX_SHAREABLE.
 * @param NicHandle   Receives the handle; NULL on failure.
 * @return As VipOpenNic(); VIP_INVALID_PARAMETER for other flags; VIP_ERROR_RESOURCE if there is no memory or process for
 *         shared objects; VIP_ERROR_NOT_SUPPORTED for #VIPX_SHAREABLE if the library was built without sharing.
 */
VIPL_API VIP_RETURN VI_CALL VipxOpenNic(const VIP_CHAR *DeviceName, VIP_ULONG Flags,
                                        VIP_NIC_HANDLE *NicHandle);

/**
 * Memory for descriptors and buffers of shareable objects: cleared, aligned to 65,536 bytes, and at the same address in this
 * process and in all that share objects with it, those that exist already too.
 *
 * Each holder has a reference, as of any shareable object; the setting VIPL_SHARED_MIB (default 1024; 64 on 32-bit systems) says
 * how many MiB there are in all, and untouched memory costs nothing.
 *
 * @param Length   Bytes, not 0.
 * @param Address  Receives the address; NULL on failure.
 * @return VIP_SUCCESS, VIP_INVALID_PARAMETER, VIP_ERROR_RESOURCE: there is not so much, or VIP_ERROR_NOT_SUPPORTED: the
 *         library was built without sharing.
 */
VIPL_API VIP_RETURN VI_CALL VipxAllocShared(VIP_ULONG Length, VIP_PVOID *Address);

/**
 * Drops this process's reference of such memory; the last one gives it back. Regions in it should be deregistered
 * before.
 *
 * @param Address  From VipxAllocShared().
 * @return VIP_SUCCESS, or VIP_INVALID_PARAMETER: it is none, or dropped already.
 */
VIPL_API VIP_RETURN VI_CALL VipxFreeShared(VIP_PVOID Address);

/* ---------------------------------------------------------------------------------------------
 * Signals
 * ------------------------------------------------------------------------------------------ */

/**
 * @page handlers Calls from signal handlers
 *
 * The library installs no handler, changes no mask but its own threads', in which every signal is blocked, and uses no
 * timer of the process; a peer that has gone raises no SIGPIPE.
 *
 * A handler may call the library, whatever its thread was doing, and always gets an answer:
 *
 * - VipPostSend(), VipPostRecv(), VipSendDone(), VipRecvDone(), VipCQDone() and VipQueryVi() are async-signal-safe. They
 *   do their work if the handler has interrupted the program's own code, or a call that sleeps: VipSendWait(),
 *   VipRecvWait(), VipCQWait(), VipConnectWait(), VipConnectRequest(), VipConnectPeerWait() and those with a mask. If
 *   it has interrupted the library at work, the Done functions say #VIP_NOT_DONE, and those that post
 *   and VipQueryVi() #VIP_ERROR_RESOURCE: nothing has happened, and the call may be repeated later.
 * - VipxStrError(), VipxStrStatus() and VipxVersion() always work.
 * - All others return #VIP_ERROR_NOT_SUPPORTED if the handler has interrupted any call, asleep or not; VipGetUserData()
 *   returns NULL; what their parameters point to stays as it is. If it has interrupted the program's own code they are functions like malloc(): a handler that
 *   cannot know what it interrupts must not call them.
 *
 * As other functions of that kind they may change errno, which a handler saves.
 *
 * What a handler reaps, the interrupted call does not get: it goes on waiting, or ends with #VIP_INTERRUPTED, having consumed nothing.
 *
 * A handler that has interrupted a call must return. To leave it by siglongjmp(), or by an exception, is not supported:
 * all later calls of the thread are refused as from a handler, and what it held stays locked.
 */

/**
 * @page cancellation Threads that are cancelled
 *
 * The calls that sleep, named above, are cancellation points while they sleep, and no other call is. A thread that is
 * cancelled there has consumed nothing, and its call ends as if interrupted; its clean-up handlers may call the library.
 * Asynchronous cancellation (PTHREAD_CANCEL_ASYNCHRONOUS) is not supported.
 */

/**
 * Say whether blocking calls resume after a signal handler ran in their thread, with the time they had left, or end
 * with #VIP_INTERRUPTED. A NIC handle starts with what the setting VIPL_RESTART says, and that is: they end.
 *
 * Holds for calls that begin afterwards, on this NIC handle and on what was created on it.
 *
 * @param NicHandle  From VipOpenNic().
 * @param Restart    VIP_TRUE: they resume.
 */
VIPL_API VIP_RETURN VI_CALL VipxSetRestart(VIP_NIC_HANDLE NicHandle, VIP_BOOLEAN Restart);

/* A translation unit that asks for ISO C alone (-std=c99 without _POSIX_C_SOURCE, for example) has no sigset_t, and none of
 * what comes with it; it has no use for a signal mask either. */
#ifdef SIG_BLOCK

/**
 * VipSendWait() with another signal mask while the thread sleeps, put on and taken off together with falling asleep and
 * waking, as ppoll() does it. A program blocks a signal, looks at what its handler sets, and waits with a mask
 * that lets the signal through: none is missed between the look and the wait.
 *
 * A signal that is pending and not in the mask ends the call at once, if there is nothing to take. The mask is not used
 * where the call does not sleep.
 *
 * @param ViHandle       From VipCreateVi().
 * @param Timeout        Milliseconds.
 * @param Mask           The signals that are blocked meanwhile; NULL: as they are.
 * @param DescriptorPtr  Receives the descriptor, or NULL.
 * @return As VipSendWait().
 */
VIPL_API VIP_RETURN VI_CALL VipxSendWaitMask(VIP_VI_HANDLE ViHandle, VIP_ULONG Timeout, const sigset_t *Mask,
                                             VIP_DESCRIPTOR **DescriptorPtr);

/**
 * VipRecvWait() with another signal mask while the thread sleeps; as VipxSendWaitMask().
 *
 * @param ViHandle       From VipCreateVi().
 * @param Timeout        Milliseconds.
 * @param Mask           The signals that are blocked meanwhile; NULL: as they are.
 * @param DescriptorPtr  Receives the descriptor, or NULL.
 * @return As VipRecvWait().
 */
VIPL_API VIP_RETURN VI_CALL VipxRecvWaitMask(VIP_VI_HANDLE ViHandle, VIP_ULONG Timeout, const sigset_t *Mask,
                                             VIP_DESCRIPTOR **DescriptorPtr);

/**
 * VipCQWait() with another signal mask while the thread sleeps; as VipxSendWaitMask().
 *
 * @param CQHandle   From VipCreateCQ().
 * @param Timeout    Milliseconds.
 * @param Mask       The signals that are blocked meanwhile; NULL: as they are.
 * @param ViHandle   Receives the VI, or NULL.
 * @param RecvQueue  Receives whether it is the VI's receive queue.
 * @return As VipCQWait().
 */
VIPL_API VIP_RETURN VI_CALL VipxCQWaitMask(VIP_CQ_HANDLE CQHandle, VIP_ULONG Timeout, const sigset_t *Mask,
                                           VIP_VI_HANDLE *ViHandle, VIP_BOOLEAN *RecvQueue);

#endif /* SIG_BLOCK */

/* ---------------------------------------------------------------------------------------------
 * Event loops
 * ------------------------------------------------------------------------------------------ */

/** What VipxGetFd() watches. */
typedef enum _VIPX_FD_KIND {
    VIPX_FD_SEND,   /**< A VI: VipSendDone() would return a descriptor. */
    VIPX_FD_RECV,   /**< A VI: VipRecvDone() would return a descriptor. */
    VIPX_FD_CQ,     /**< A completion queue: VipCQDone() would return an entry. */
    VIPX_FD_CONNECT /**< A NIC handle: a connection request waits for VipConnectWait(). */
} VIPX_FD_KIND;

/**
 * A descriptor for poll(), select(), epoll, kqueue, libuv and the like that is readable exactly while there is something to
 * take, whoever has put it there and whoever takes it. Nothing is taken by waiting: the program calls Done, until that is
 * VIP_NOT_DONE if its loop reports changes only (EPOLLET). An object has one descriptor of a kind, for its whole life.
 *
 * The descriptor is the library's. The program never reads, writes or closes it, takes it out of its event loop before
 * the object is destroyed, and does not use it in a forked child. It is closed with the object and by exec.
 *
 * From the first one on the NIC handle has a library thread, which moves data while the program is in its own loop.
 *
 * #VIPX_FD_CONNECT is readable while any request waits at this NIC handle, for whatever address. Requests come for addresses
 * that a VipConnectWait() has named since the descriptor was asked for, with a timeout of 0 for example: those stay as if
 * a call went on waiting there, the latest 1,024 of them, until the NIC handle is closed. A program of several addresses
 * asks for each when the descriptor is readable.
 *
 * @param Kind    What to wait for.
 * @param Handle  From VipCreateVi(), VipCreateCQ() or VipOpenNic(), as Kind says.
 * @param Fd      Receives the descriptor, or -1.
 * @retval VIP_ERROR_RESOURCE       The queue reports to a completion queue; or no descriptors, memory or threads are left.
 * @retval VIP_ERROR_NOT_SUPPORTED  VIPL_PROGRESS=inline forbids library threads.
 */
VIPL_API VIP_RETURN VI_CALL VipxGetFd(VIPX_FD_KIND Kind, VIP_PVOID Handle, int *Fd);

/* ---------------------------------------------------------------------------------------------
 * Statistics: what VipQuerySystemManagementInfo() answers beyond VIPL 1.0. Counters never go back while the NIC handle or the VI
 * lives, and cost nothing that is not counted anyway.
 * ------------------------------------------------------------------------------------------ */

/** For VipQuerySystemManagementInfo(): a VIPX_NIC_STATISTICS. */
#define VIPX_SMI_NIC_STATISTICS ((VIP_ULONG)0x56490001)
/** For VipQuerySystemManagementInfo(): a VIPX_VI_STATISTICS. */
#define VIPX_SMI_VI_STATISTICS ((VIP_ULONG)0x56490002)

/** Work that is complete. A descriptor counts when it becomes complete, not when the program takes it. */
typedef struct _VIPX_WORK_STATISTICS {
    VIP_UINT64 Sends;           /**< Without error, */
    VIP_UINT64 SendBytes;       /**< and their bytes. */
    VIP_UINT64 RdmaWrites;      /**< Asked for by this program, without error, */
    VIP_UINT64 RdmaWriteBytes;  /**< and their bytes. */
    VIP_UINT64 RdmaReads;       /**< Asked for by this program, without error, */
    VIP_UINT64 RdmaReadBytes;   /**< and their bytes. */
    VIP_UINT64 SendsFailed;     /**< Descriptors of send queues with an error, flushed ones too. */
    VIP_UINT64 Receives;        /**< Without error, those used by RDMA Writes with immediate data too, */
    VIP_UINT64 ReceiveBytes;    /**< and their bytes. */
    VIP_UINT64 ReceivesFailed;  /**< Descriptors of receive queues with an error, flushed ones too. */
    VIP_UINT64 Connections;     /**< Made, by either side. */
    VIP_UINT64 ConnectionsLost; /**< Ended by something else than a call of this program. */
    VIP_UINT64 RequestsRefused; /**< Of this program, by the peer's VipConnectReject(). */
} VIPX_WORK_STATISTICS;

/** Filled by VipQuerySystemManagementInfo() with #VIPX_SMI_NIC_STATISTICS. */
typedef struct _VIPX_NIC_STATISTICS {
    VIPX_WORK_STATISTICS Work;   /**< Of all VIs there are and have been. */
    VIP_UINT64 RequestsTaken;    /**< Connection requests that VipConnectWait() has returned, */
    VIP_UINT64 RequestsRejected; /**< and that VipConnectReject() has ended. */
    VIP_UINT64 RequestsWaiting;  /**< Now, for VipConnectWait(). */
    VIP_UINT64 VisCreated;       /**< So far. */
    VIP_UINT64 Vis;              /**< Now. */
    VIP_UINT64 CompletionQueues; /**< Now. */
    VIP_UINT64 ProtectionTags;   /**< Now; the default tag is one. */
    VIP_UINT64 Regions;          /**< Of registered memory, now, */
    VIP_UINT64 RegisteredBytes;  /**< and their bytes. */
} VIPX_NIC_STATISTICS;

/** Filled by VipQuerySystemManagementInfo() with #VIPX_SMI_VI_STATISTICS. */
typedef struct _VIPX_VI_STATISTICS {
    VIPX_WORK_STATISTICS Work; /**< Out: since VipCreateVi(). */
    VIP_UINT64 SendsPosted;    /**< Out: descriptors on the send queue now, complete or not. */
    VIP_UINT64 ReceivesPosted; /**< Out: descriptors on the receive queue now, complete or not. */
    VIP_VI_HANDLE ViHandle;    /**< In: a VI of the NIC handle. */
} VIPX_VI_STATISTICS;

/* ---------------------------------------------------------------------------------------------
 * Texts. These functions are async-signal-safe.
 * ------------------------------------------------------------------------------------------ */

/**
 * The name of a return code, "VIP_TIMEOUT"; of a number that is none, "VIP_RETURN ?". The text is constant.
 *
 * @param Code  What a function returned.
 */
VIPL_API const char *VI_CALL VipxStrError(VIP_RETURN Code);

/**
 * What the Status of a descriptor says, "DONE RDMA_WRITE DESC_FLUSHED_ERROR" for example: whether it is complete, the operation, each
 * error, and IMMEDIATE. Bits without a name are written as one hexadecimal number.
 *
 * @param Status  CS.Status of a descriptor.
 * @param Text    Receives the text, cut to what fits, with a final null byte; may be NULL if Size is 0.
 * @param Size    Bytes of Text. 256 hold the longest.
 * @return The bytes of the whole text, the null byte not counted, as snprintf() does it.
 */
VIPL_API size_t VI_CALL VipxStrStatus(VIP_UINT32 Status, char *Text, size_t Size);

/**
 * The version of the library that runs, "0.1.0"; version.h has that of the one compiled against. The text is constant.
 */
VIPL_API const char *VI_CALL VipxVersion(void);

#ifdef __cplusplus
}
#endif

#endif
