/* SPDX-License-Identifier: MIT */
/**
 * @file windows.h What takes the place of VipxGetFd() on Windows: event objects.
 *
 * On Windows the library's descriptors are numbers of its own, which no call of the system takes.
 * So VipxGetFd() returns #VIP_ERROR_NOT_SUPPORTED there, and VipxGetEvent() has what a loop of
 * WaitForMultipleObjects(), MsgWaitForMultipleObjects() or RegisterWaitForSingleObject() waits for.
 * The function is there on Windows alone.
 */
#ifndef VIPL_WINDOWS_H
#define VIPL_WINDOWS_H

#include "posix.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Get an event object for the loop of a program. It is signalled exactly while the object has
 * something to take, regardless of the process that put it there. Waiting for the event takes
 * nothing, and does not reset it (it is a manual-reset event): the program calls the Done function
 * until that returns #VIP_NOT_DONE. An object has one event of each kind, for its whole life.
 *
 * The event belongs to the library. The program never sets, resets or closes it, and waits for it
 * no more before the object is destroyed, with which it is closed. A program that must wait longer
 * makes a duplicate (DuplicateHandle()), which stays as it was at the end.
 *
 * Kinds, the library's thread and the addresses that #VIPX_FD_CONNECT is for are as for
 * VipxGetFd().
 * Threads may call the function at the same time, for the same object too. It does not block.
 *
 * @param Kind    What to wait for.
 * @param Handle  From VipCreateVi(), VipCreateCQ() or VipOpenNic(), as Kind says.
 * @param Event   Receives the HANDLE of the event, or NULL.
 * @retval VIP_INVALID_PARAMETER  Not a handle of this kind, or Event is NULL.
 * @retval VIP_ERROR_RESOURCE The queue reports to a completion queue; or no handles, memory or
 *         threads are left.
 * @retval VIP_ERROR_NOT_SUPPORTED  #VIPX_INLINE or VIPL_PROGRESS=inline forbids library threads.
 */
VIPL_API VIP_RETURN VI_CALL VipxGetEvent(VIPX_FD_KIND Kind, VIP_PVOID Handle, void **Event);

#ifdef __cplusplus
}
#endif

#endif
