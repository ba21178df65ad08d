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
