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
