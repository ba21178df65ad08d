/* SPDX-License-Identifier: MIT */
/**
 * @file posix.h
 * What POSIX systems need beyond VIPL 1.0, and some conveniences. A program that does not include this file
 * gets the safe default of everything here.
 *
 * The conventions of vipl.h hold. Functions of this file are named Vipx..., and are not part of VIPL 1.0.
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
 * - **References.** A process holds what it made and what it inherited. VipDestroyVi(), VipDestroyCQ(),
 *   VipDestroyPtag(), VipDeregisterMem() and VipCloseNic() drop the caller's reference, and the handle is invalid in this process
 *   afterwards; the last one acts, as in VIPL 1.0. So all but the last may drop a VI that is connected. A process that
 *   exits, is killed or calls exec drops its references; what nobody holds any more is disconnected and destroyed.
 *   No holder waits for another one, dead or alive.
 * - **Completions** go to whoever takes them first, each to one. A completion queue that a killed process was told
 *   of a completion by, and did not take it, tells another one; so after a death it may name a queue whose completion
 *   another process has just taken: VipRecvDone() then says VIP_NOT_DONE. Who gives up a VI should not
 *   go on waiting on its completion queue: it would take entries that others need.
 * - **Memory** that is registered lies in what VipxAllocShared() gives, descriptors too.
 * - **Limits.** VipQueryNic() tells those of shareable NIC handles. All entries of a completion queue are kept: EntryCount
 *   is a minimum.
 * - **Not supported:** callbacks (VipSendNotify(), VipRecvNotify(), VipCQNotify(), VipErrorCallback()): they would run in
 *   one process of several. Errors are logged.
 *
 * The objects live in a process that the library forks off with the first shareable NIC handle, the keeper: it has no
 * descriptors of the program but the standard error output, is seen by none of its wait() calls, and ends with the
 * last holder. Open the first shareable NIC handle early: what the program has in memory then is copied as it is
 * changed. If the keeper is killed, calls on shared objects return VIP_ERROR_RESOURCE.
 *
 * @param DeviceName  As for VipOpenNic().
 * @param Flags       0, or #VIPX_SHAREABLE.
 * @param NicHandle   Receives the handle; NULL on failure.
 * @return As VipOpenNic(); VIP_INVALID_PARAMETER for other flags; VIP_ERROR_RESOURCE if there is no memory or process for
 *         shared objects.
 */
VIPL_API VIP_RETURN VI_CALL VipxOpenNic(IN const VIP_CHAR *DeviceName, IN VIP_ULONG Flags,
                                        OUT VIP_NIC_HANDLE *NicHandle);

/**
 * Memory for descriptors and buffers of shareable objects: cleared, aligned to 65,536 bytes, and at the same address in this
 * process and in all that share objects with it, those that exist already too.
 *
 * Each holder has a reference, as of any shareable object; the setting VIPL_SHARED_MIB (default 1024; 64 on 32-bit systems) says
 * how many MiB there are in all, and untouched memory costs nothing.
 *
 * @param Length   Bytes, not 0.
 * @param Address  Receives the address; NULL on failure.
 * @return VIP_SUCCESS, VIP_INVALID_PARAMETER, or VIP_ERROR_RESOURCE: there is not so much.
 */
VIPL_API VIP_RETURN VI_CALL VipxAllocShared(IN VIP_ULONG Length, OUT VIP_PVOID *Address);

/**
 * Drops this process's reference of such memory; the last one gives it back. Regions in it should be deregistered
 * before.
 *
 * @param Address  From VipxAllocShared().
 * @return VIP_SUCCESS, or VIP_INVALID_PARAMETER: it is none, or dropped already.
 */
VIPL_API VIP_RETURN VI_CALL VipxFreeShared(IN VIP_PVOID Address);

/* ---------------------------------------------------------------------------------------------
 * Signals
 * ------------------------------------------------------------------------------------------ */

/**
 * Say whether blocking calls resume after a signal handler ran in their thread, with the time they had left, or end
 * with #VIP_INTERRUPTED. A NIC handle starts with what the setting VIPL_RESTART says, and that is: they end.
 *
 * Holds for calls that begin afterwards, on this NIC handle and on what was created on it.
 *
 * @param NicHandle  From VipOpenNic().
 * @param Restart    VIP_TRUE: they resume.
 */
VIPL_API VIP_RETURN VI_CALL VipxSetRestart(IN VIP_NIC_HANDLE NicHandle, IN VIP_BOOLEAN Restart);

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
VIPL_API VIP_RETURN VI_CALL VipxSendWaitMask(IN VIP_VI_HANDLE ViHandle, IN VIP_ULONG Timeout,
                                             IN const sigset_t *Mask, OUT VIP_DESCRIPTOR **DescriptorPtr);

/**
 * VipRecvWait() with another signal mask while the thread sleeps; as VipxSendWaitMask().
 *
 * @param ViHandle       From VipCreateVi().
 * @param Timeout        Milliseconds.
 * @param Mask           The signals that are blocked meanwhile; NULL: as they are.
 * @param DescriptorPtr  Receives the descriptor, or NULL.
 * @return As VipRecvWait().
 */
VIPL_API VIP_RETURN VI_CALL VipxRecvWaitMask(IN VIP_VI_HANDLE ViHandle, IN VIP_ULONG Timeout,
                                             IN const sigset_t *Mask, OUT VIP_DESCRIPTOR **DescriptorPtr);

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
VIPL_API VIP_RETURN VI_CALL VipxCQWaitMask(IN VIP_CQ_HANDLE CQHandle, IN VIP_ULONG Timeout,
                                           IN const sigset_t *Mask, OUT VIP_VI_HANDLE *ViHandle,
                                           OUT VIP_BOOLEAN *RecvQueue);

/* ---------------------------------------------------------------------------------------------
 * Texts. These functions are async-signal-safe.
 * ------------------------------------------------------------------------------------------ */

/**
 * The name of a return code, "VIP_TIMEOUT"; of a number that is none, "VIP_RETURN ?". The text is constant.
 *
 * @param Code  What a function returned.
 */
VIPL_API const char *VI_CALL VipxStrError(IN VIP_RETURN Code);

/**
 * What the Status of a descriptor says, "DONE RDMA_WRITE DESC_FLUSHED_ERROR" for example: whether it is complete, the operation, each
 * error, and IMMEDIATE. Bits without a name are written as one hexadecimal number.
 *
 * @param Status  CS.Status of a descriptor.
 * @param Text    Receives the text, cut to what fits, with a final null byte; may be NULL if Size is 0.
 * @param Size    Bytes of Text. 256 hold the longest.
 * @return The bytes of the whole text, the null byte not counted, as snprintf() does it.
 */
VIPL_API size_t VI_CALL VipxStrStatus(IN VIP_UINT32 Status, OUT char *Text, IN size_t Size);

/**
 * The version of the library that runs, "0.1.0"; version.h has that of the one compiled against. The text is constant.
 */
VIPL_API const char *VI_CALL VipxVersion(void);

#ifdef __cplusplus
}
#endif

#endif
