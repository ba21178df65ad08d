/* SPDX-License-Identifier: MIT */
/**
 * @file posix.h What programs on POSIX systems need beyond VIPL 1.0, and some conveniences. A
 * program that does not include this file gets the safe default of everything here.
 *
 * The conventions of vipl.h hold. Functions of this file are named Vipx..., and are not part of
 * VIPL 1.0. Those that take a signal mask are declared where <signal.h> has sigaction().
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
 * Connecting
 * ------------------------------------------------------------------------------------------ */

/** For VipxConnectRequest(): do not wait for a listener that is not there. */
#define VIPX_AT_ONCE ((VIP_ULONG)1)

/**
 * VipConnectRequest() with flags. Without a flag it is that call.
 *
 * With #VIPX_AT_ONCE the listener must be there before the request, as for connect() of a socket or
 * rdma_connect(). Where nobody listens, the call returns #VIP_NO_MATCH as soon as the device has
 * found that out, and not when the time is up, so that a program that has another transport goes on
 * without delay.
 *
 * - **A listener** is an open NIC handle that has waited for the discriminator in VipConnectWait(),
 *   with any time limit, even 0. It goes on listening between two calls and after the last one: on
 *   the last 64 discriminators that it has waited for, and on the last 1,024 with a
 *   #VIPX_FD_CONNECT descriptor. So a request that comes between two calls of VipConnectWait()
 *   finds the listener. A program that only has the descriptor, and has never called
 *   VipConnectWait(), does not listen. A listener ends with VipCloseNic() and with its process; on
 *   a NIC handle with #VIPX_BRIEF_LISTENER it ends with the call of VipConnectWait().
 * - **A listener that does not answer** in time is #VIP_TIMEOUT, at the time limit, as without the
 *   flag: its program is busy, or stopped. A program that closes its NIC handle after
 *   VipConnectWait() has returned the request, and does not answer it, rejects it (#VIP_REJECT). A
 *   request that it has not returned is another listener's, if there is one. If the last listener
 *   closes its NIC handle or is killed, the call returns #VIP_NO_MATCH within 200 ms.
 * - **What is known at once**: over loopback, everything. Over tcp the host must answer: it refuses
 *   the connection (#VIP_NO_MATCH), or the network says that it cannot be reached
 *   (#VIP_NOT_REACHABLE); of a host that says nothing the call learns only when the time is up. A
 *   port of the name that another name's listener has counts as refused when that program answers,
 *   so it delays the result while it is busy. On an RDMA card, the peer's card answers.
 * - If this host lacks memory or descriptors to find out, the request goes on until the time is up,
 *   and ends with #VIP_ERROR_RESOURCE.
 *
 * States, threads, signals and forks: as VipConnectRequest(). After #VIP_NO_MATCH the VI is IDLE,
 * its receives are still posted, and it may ask again. It works for shareable objects too.
 *
 * @param ViHandle         An idle VI.
 * @param LocalAddr        The requester's name, as for VipConnectRequest().
 * @param RemoteAddr       Host, and the discriminator the listener waits on.
 * @param Flags            0 or #VIPX_AT_ONCE.
 * @param Timeout          Milliseconds for the listener's answer. With 0, what is known by then.
 * @param RemoteViAttribs  Receives the accepting VI's attributes; may be NULL.
 * @return As VipConnectRequest(); VIP_INVALID_PARAMETER for other flags.
 */
VIPL_API VIP_RETURN VI_CALL VipxConnectRequest(VIP_VI_HANDLE ViHandle, VIP_NET_ADDRESS *LocalAddr,
                                               VIP_NET_ADDRESS *RemoteAddr, VIP_ULONG Flags,
                                               VIP_ULONG Timeout, VIP_VI_ATTRIBUTES *RemoteViAttribs);

/* ---------------------------------------------------------------------------------------------
 * Sharing: objects that a process and its children have in common
 * ------------------------------------------------------------------------------------------ */

/** For VipxOpenNic(): objects created on the NIC handle are shareable. */
#define VIPX_SHAREABLE ((VIP_ULONG)1)
/** For VipxOpenNic(): the library starts no thread for the NIC handle, as with VIPL_PROGRESS=inline
 * for all of them. What happens, happens in the program's calls. VipSendNotify(), VipRecvNotify(),
 * VipCQNotify(), VipErrorCallback() with a handler and VipxGetFd() return
 * VIP_ERROR_NOT_SUPPORTED. */
#define VIPX_INLINE ((VIP_ULONG)2)
/** For VipxOpenNic(): a connection that ends is no error for this program, which sees the VI's
 * state. Without an error handler it is logged at the level info, and not error. */
#define VIPX_QUIET ((VIP_ULONG)4)
/** For VipxOpenNic(): a thread that waits polls for some microseconds before it sleeps, so that a
 * message that comes soon costs no sleep and no wake-up. This holds for all calls that wait on the
 * NIC handle and its objects. The setting VIPL_SPIN_US has the most microseconds (50); 0: none.
 * - A thread polls for twice as long as its short waits usually take, and only as long as that
 *   pays. What it loses by polling in vain is at most what it saves otherwise and a 64th of the
 *   time. A thread whose waits are long uses less than a thousandth of a CPU for it.
 * - Once in a millisecond the polling begins with a yield. If the thread gets its CPU back late,
 *   twice in succession, because more threads want to run there, it sleeps without polling for a
 *   fifth of a second.
 * - Timeouts hold; with a timeout of 0 nothing is polled for. A descriptor of VipxCQWaitFds(), and
 *   a signal in a call that has such descriptors, are seen within 7 microseconds, as long as a poll
 *   of the device is short; a signal in other calls when the polling ends. A handler that
 *   interrupts the first two microseconds has interrupted the library at work. */
#define VIPX_SPIN ((VIP_ULONG)8)
/** For VipxOpenNic(): VipDisconnect() does not wait for a peer that has yet to fetch what was sent,
 * as with VIPL_LINGER=0. For programs whose own protocol says what has arrived. */
#define VIPX_NO_LINGER ((VIP_ULONG)16)
/** For VipxOpenNic(): the NIC handle listens for a discriminator only while a call of
 * VipConnectWait() waits for it, and not between two calls or after the last one. For programs that
 * accept a connection on each of many NIC handles: a request is shown to every listener, and costs
 * both programs descriptors for each. Another NIC handle without the flag should listen all the
 * time, so that a request with #VIPX_AT_ONCE always finds a listener. */
#define VIPX_BRIEF_LISTENER ((VIP_ULONG)32)

/**
 * Open a NIC handle as VipOpenNic() does, with flags.
 *
 * With #VIPX_SHAREABLE, the NIC handle and each VI, completion queue, protection tag, memory region
 * and connection request on it is shared between this process and the children that it forks from
 * then on, as an open file is. The handles mean the same in all these processes, and each of them
 * may post, reap, wait, query, connect and disconnect. Without the flag this is VipOpenNic(): in a
 * forked child, inherited handles are invalid.
 *
 * - **References.** A process has a reference to each object that it created or inherited. In a
 *   process without a reference every function returns VIP_INVALID_PARAMETER for the handle.
 *   VipDestroyVi(), VipDestroyCQ(), VipDestroyPtag(), VipDeregisterMem() and VipCloseNic() drop the
 *   caller's reference, and the handle is invalid in that process afterwards. The call that drops
 *   the last reference acts as VIPL 1.0 says; therefore a process that does not drop the last one
 *   may also drop a connected VI. A process that exits, is killed or calls exec drops its
 *   references. An object without references is disconnected and destroyed. No process waits for
 *   another one, dead or alive.
 * - **Forks** may come from any thread, from several threads at once, and from signal handlers, and
 *   they do not wait. There is one exception: if the server (see below) is stopped and a few
 *   hundred forks have not reached it, a fork waits for one second at most, and its child then has
 *   no shared objects.
 * - **Rights** are those that the program had when it opened its first shareable NIC handle, while
 *   any of its processes has these. A process that has changed its users, groups or capabilities
 *   while another one has not can use the objects it has. In such a process VipxOpenNic()
 *   with #VIPX_SHAREABLE, VipConnectWait(), VipConnectRequest(), VipConnectPeerRequest(), the name
 *   service, and VipRegisterMem() of memory that is not from VipxAllocShared() return
 *   VIP_ERROR_RESOURCE. When no process has the former users and groups any more, the rights are
 *   those of one that is left. A call that another thread makes while setuid() or the like is under
 *   way is served, before the change or after it; in a thread that has another user or group than
 *   its process's first thread for more than 5 seconds, by system calls of its own, such a call
 *   returns VIP_ERROR_RESOURCE.
 * - **Completions** go to the first process that takes them, each one once. If a process is killed
 *   after a completion queue named a completion to it and before it took the completion, the queue
 *   names it to another process. So after a death the queue may name a work queue whose completion
 *   has just been taken: VipRecvDone() then returns VIP_NOT_DONE. A process is never told of a VI
 *   to which it has no reference. It should not wait on a completion queue that such VIs report to:
 *   while other processes have something to take there, it wakes up every few milliseconds.
 * - **Memory** that is registered, descriptors included, must be from VipxAllocShared(), or belong
 *   to a MAP_SHARED mapping that existed when the program opened its first shareable NIC handle.
 *   Other memory is VIP_INVALID_PARAMETER.
 * - **Limits.** VipQueryNic() reports the limits of shareable NIC handles. A completion queue keeps
 *   all its entries: EntryCount is a minimum.
 * - **Handlers** run in the process that registered them, on one library thread for all its
 *   shareable NIC handles. An error is reported in each process that has a reference to the VI and
 *   an error handler on the NIC handle.
 *
 * The objects belong to the server, a process that the library starts when the first shareable NIC
 * handle is opened. The server has none of the program's descriptors except standard error, no
 * wait() call of the program returns it, and it ends when the last process that uses it ends. It is
 * a program of its own, libexec/vipl-server. Where that cannot be run, it is a fork of the calling
 * program, and memory that the program has at that moment is copied when it changes. If the server
 * is killed, calls on shared objects return VIP_ERROR_RESOURCE until another shareable NIC handle
 * is opened.
 *
 * @param DeviceName  As for VipOpenNic().
 * @param Flags       0, #VIPX_SHAREABLE, or any of #VIPX_INLINE, #VIPX_QUIET, #VIPX_SPIN,
 *                    #VIPX_NO_LINGER and #VIPX_BRIEF_LISTENER.
 * @param NicHandle   Receives the handle; NULL on failure.
 * @return As VipOpenNic(); VIP_INVALID_PARAMETER for other flags or combinations;
 *         VIP_ERROR_RESOURCE if there is no memory or process for shared objects;
 *         VIP_ERROR_NOT_SUPPORTED for #VIPX_SHAREABLE if the library was built without sharing.
 */
VIPL_API VIP_RETURN VI_CALL VipxOpenNic(const VIP_CHAR *DeviceName, VIP_ULONG Flags,
                                        VIP_NIC_HANDLE *NicHandle);

/**
 * Allocate memory for descriptors and buffers of shareable objects. It is cleared, aligned to
 * 65,536 bytes, and at the same address in this process and in all processes that share objects
 * with it, including those that exist already.
 *
 * It can be registered with NIC handles that are not shareable too. RDMA Writes and Reads between
 * two processes of one host that go to such memory over the loopback device take no system call,
 * where the system lets the processes into each other's memory.
 *
 * Processes have references to it as to any shareable object. The setting VIPL_SHARED_MIB (default
 * 1024; 64 on 32-bit systems) says how many MiB there are in all; memory that has not been written
 * costs nothing.
 *
 * @param Length   Bytes, not 0.
 * @param Address  Receives the address; NULL on failure.
 * @return VIP_SUCCESS, VIP_INVALID_PARAMETER, VIP_ERROR_RESOURCE if there is not so much memory
 *         left, or VIP_ERROR_NOT_SUPPORTED if the library was built without sharing.
 */
VIPL_API VIP_RETURN VI_CALL VipxAllocShared(VIP_ULONG Length, VIP_PVOID *Address);

/**
 * Drop this process's reference to such memory; the call that drops the last one frees it.
 * Deregister the regions in it before; the registration caches of this process forget theirs.
 *
 * @param Address  From VipxAllocShared().
 * @return VIP_SUCCESS, or VIP_INVALID_PARAMETER if this process has no reference to memory that
 *         begins there.
 */
VIPL_API VIP_RETURN VI_CALL VipxFreeShared(VIP_PVOID Address);

/* ---------------------------------------------------------------------------------------------
 * Memory of the device. An RDMA card may have memory of its own. A transfer from or to it does not
 * cross the bus between the card and main memory, for which data of another device may go there at
 * once, and data that a peer asks for again and again may stay there.
 * ------------------------------------------------------------------------------------------ */

/** The kinds of memory that a device may have. */
typedef enum _VIPX_DEVICE_MEMORY {
    VIPX_DEVICE_DRAM, /**< The larger one. */
    VIPX_DEVICE_SRAM  /**< The one with the shorter access time, of some KiB. */
} VIPX_DEVICE_MEMORY;

/**
 * Allocate memory of the device, for buffers. It is mapped in this process: the program reads and
 * writes it as other memory, and registers it, or a part of it, by VipRegisterMem() on any NIC
 * handle. On NIC handles of the device itself the data of transfers then does not cross the bus.
 * One registration lies within memory of one call.
 *
 * The processor may be slow to read such memory, and a card in hardware may not know atomic
 * operations on it: descriptors, and what threads share, are better in main memory. What is in the
 * memory at first is not defined. `vipl-info` and #VIPX_SMI_DEVICE_PROPERTIES ("dram_bytes",
 * "sram_bytes") say how much of it this process has; each allocation takes a multiple of 64 bytes.
 *
 * A forked child does not have the memory, and must not access its addresses. Any thread may call
 * this function, and a signal handler may not. VipCloseNic() frees the memory; a region of another
 * NIC handle in it keeps it until that region ends, or until this process has no open NIC handle of
 * the device any more.
 *
 * @param NicHandle  From VipOpenNic().
 * @param Length     Bytes, not 0.
 * @param Kind       Which memory.
 * @param Address    Receives the address, a multiple of 64; NULL on failure.
 * @retval VIP_INVALID_PARAMETER  Address is NULL, Length is 0, there is no such kind, or NicHandle
 *         is not a live NIC handle.
 * @retval VIP_ERROR_RESOURCE  There is not so much memory left in one piece, or the device is
 *         gone.
 * @retval VIP_ERROR_NOT_SUPPORTED  The device has no memory of this kind that a process can map,
 *         the NIC handle is shareable, or a signal handler has made the call.
 */
VIPL_API VIP_RETURN VI_CALL VipxAllocDevice(VIP_NIC_HANDLE NicHandle, VIP_ULONG Length,
                                            VIPX_DEVICE_MEMORY Kind, VIP_PVOID *Address);

/**
 * Free such memory. Its addresses may then be those of memory that is allocated later. Deregister
 * the regions in it before. Any thread may call this function, and a signal handler may not.
 *
 * @param NicHandle  The NIC handle that the memory was allocated with.
 * @param Address    From VipxAllocDevice().
 * @retval VIP_INVALID_PARAMETER  NicHandle is not a live NIC handle, or has no such memory that
 *         begins there.
 * @retval VIP_ERROR_RESOURCE  Some of it is registered with a NIC handle of the device; nothing has
 *         changed.
 * @retval VIP_ERROR_NOT_SUPPORTED  The device has no memory that a process can map, the NIC handle
 *         is shareable, or a signal handler has made the call.
 */
VIPL_API VIP_RETURN VI_CALL VipxFreeDevice(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address);

/* ---------------------------------------------------------------------------------------------
 * Signals
 * ------------------------------------------------------------------------------------------ */

/**
 * @page handlers Calls from signal handlers
 *
 * The library installs no handler, changes no mask except those of its own threads, in which every
 * signal is blocked, and uses no timer of the process. A peer that has gone raises no SIGPIPE.
 *
 * A handler may call the library, regardless of what its thread was doing, and every call returns:
 *
 * - VipPostSend(), VipPostRecv(), VipSendDone(), VipRecvDone(), VipCQDone() and VipQueryVi() are
 *   async-signal-safe. They do their work if the handler has interrupted the program's own code, or
 *   a call that sleeps: VipSendWait(), VipRecvWait(), VipCQWait(), VipConnectWait(),
 *   VipConnectRequest(), VipConnectPeerWait() and those with a mask. If the handler has interrupted
 *   the library at work, the Done functions return #VIP_NOT_DONE, and the posting functions and
 *   VipQueryVi() return #VIP_ERROR_RESOURCE: nothing has happened, and the call may be repeated
 *   later.
 * - VipxStrError(), VipxStrStatus() and VipxVersion() always work.
 * - All others return #VIP_ERROR_NOT_SUPPORTED if the handler has interrupted any call, asleep or
 *   not; VipGetUserData() returns NULL. Their out-parameters stay as they are. If the handler has
 *   interrupted the program's own code, these functions are like malloc(): a handler that cannot
 *   know what it interrupts must not call them.
 *
 * The async-signal-safe functions may change errno, which a handler saves.
 *
 * They take 4 KiB of stack at most, whatever is posted and whatever has come in (with the device
 * rnic:inproc, where the caller runs the model of the card, 6 KiB; on s390x, whose smallest frame
 * is 160 bytes, half as much again). An alternate stack has to have room for the frame that the
 * system stores beside that (sysconf(_SC_MINSIGSTKSZ)). A program that is linked lazily needs some
 * 3 KiB more at the first call of each function, for the loader; -z now, or LD_BIND_NOW, is
 * without that. A thread with a stack of 16 KiB may also make the calls that wait.
 *
 * A completion that a handler reaps is not returned by the interrupted call: that goes on waiting,
 * or ends with #VIP_INTERRUPTED and has consumed nothing.
 *
 * A handler that has interrupted a call must return. To leave it by siglongjmp() or by an exception
 * is not supported: all later calls of the thread would be refused as if they came from a handler,
 * and its locks would stay locked.
 */

/**
 * @page cancellation Threads that are cancelled
 *
 * The calls that sleep, named above, are cancellation points while they sleep; no other call is
 * one. A thread that is cancelled there has consumed nothing, and its call ends as if interrupted.
 * Its clean-up handlers may call the library. Asynchronous cancellation
 * (PTHREAD_CANCEL_ASYNCHRONOUS) is not supported.
 */

/**
 * Choose whether a blocking call goes on after a signal handler ran in its thread, with the time
 * that it had left, or ends with #VIP_INTERRUPTED. The setting VIPL_RESTART is the choice of a new
 * NIC handle; without it, calls end. The C library's setuid(), setgid() and their like also run a
 * handler in every other thread of the process, one of its own.
 *
 * The choice applies to calls that begin afterwards, on this NIC handle and on the objects created
 * on it.
 *
 * @param NicHandle  From VipOpenNic().
 * @param Restart    VIP_TRUE: they resume.
 */
VIPL_API VIP_RETURN VI_CALL VipxSetRestart(VIP_NIC_HANDLE NicHandle, VIP_BOOLEAN Restart);

/* A translation unit that asks for ISO C alone (-std=c99 without _POSIX_C_SOURCE, for example) has
 * no sigset_t, and none of what comes with it; it has no use for a signal mask either. A system
 * without sigaction() has no signal masks. */
#ifdef SA_NOCLDSTOP

/**
 * VipSendWait() with another signal mask while the thread sleeps. The mask is set and restored in
 * one step with falling asleep and waking up, as ppoll() does it. A program blocks a signal, tests
 * the flag that its handler sets, and waits with a mask that lets the signal through: no signal is
 * lost between the test and the wait.
 *
 * A signal that is pending and not in the mask ends the call at once, if there is nothing to take.
 * A call that does not sleep does not use the mask.
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

struct pollfd;

/**
 * VipCQWait() that also watches file descriptors of the program, as ppoll() does. The call ends
 * when the completion queue has an entry, when one of the descriptors is ready, when a
 * VipConnectPeerRequest() of a VI of this queue has ended, when the time is over, or when a signal
 * handler has run. An entry is taken first: with VIP_SUCCESS the descriptors
 * were not looked at, and all revents are 0. A program that always has entries looks at its
 * descriptors itself now and then. The thread is a waiter of the completion queue, as in
 * VipCQWait(), so no wake-up is lost between a look and the sleep, and the peer's message wakes the
 * thread without another thread in between. An epoll descriptor, or VipxGetFd()'s of another NIC
 * handle's object, may be among the descriptors.
 *
 * Threads, signals, forks and cancellation: as VipCQWait(). In a child that a signal handler forks
 * during the call, it ends with VIP_INVALID_PARAMETER.
 *
 * @param CQHandle   From VipCreateCQ(); not a shareable one.
 * @param Fds        Count elements of <poll.h>; negative descriptors are left out. Receives
 *                   revents. May be NULL if Count is 0.
 * @param Count      Elements, up to the number of descriptors that the process may open
 *                   (RLIMIT_NOFILE).
 * @param Timeout    Milliseconds; 0 looks once, at the queue and at the descriptors.
 * @param Mask       The signals that are blocked while the thread sleeps; NULL: as they are.
 * @param ViHandle   Receives the VI, or NULL.
 * @param RecvQueue  Receives whether it is the VI's receive queue, with VIP_SUCCESS.
 * @return As VipCQWait(); VIP_NOT_DONE if a descriptor is ready (revents says how; a descriptor
 *         that is not open is ready with POLLNVAL), or if a peer-to-peer request has ended
 *         (VipConnectPeerDone() has the result; one call returns for it, which may return once for
 *         several; all revents may be 0); VIP_INVALID_PARAMETER also for more elements
 *         than the system allows; VIP_ERROR_RESOURCE if there is no memory for them;
 *         VIP_ERROR_NOT_SUPPORTED for a shareable completion queue.
 */
VIPL_API VIP_RETURN VI_CALL VipxCQWaitFds(VIP_CQ_HANDLE CQHandle, struct pollfd *Fds, VIP_ULONG Count,
                                          VIP_ULONG Timeout, const sigset_t *Mask, VIP_VI_HANDLE *ViHandle,
                                          VIP_BOOLEAN *RecvQueue);

#endif /* SA_NOCLDSTOP */

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
 * Get a file descriptor for poll(), select(), epoll, kqueue, libuv and the like. It is readable
 * exactly while the object has something to take, regardless of the process that put it there and
 * of the one that takes it. Waiting for the descriptor takes nothing: the program calls the Done
 * function, and if its loop reports changes only (EPOLLET), it calls it until it returns
 * VIP_NOT_DONE. An object has one descriptor of each kind, for its whole life.
 *
 * The descriptor belongs to the library. The program never reads, writes or closes it, removes it
 * from its event loop before the object is destroyed, and does not use it in a forked child. It is
 * closed with the object and by exec.
 *
 * From the first descriptor on, the NIC handle has a library thread, which moves data while the
 * program is in its own loop.
 *
 * #VIPX_FD_CONNECT is readable while a request for any address waits at this NIC handle. Requests
 * arrive for addresses that a VipConnectWait() has named since the descriptor was made, with a
 * timeout of 0 for example. The latest 1,024 of these addresses are listened to, as if a call went
 * on waiting, until the NIC handle is closed. A program that has several addresses calls
 * VipConnectWait() for each when the descriptor is readable.
 *
 * @param Kind    What to wait for.
 * @param Handle  From VipCreateVi(), VipCreateCQ() or VipOpenNic(), as Kind says.
 * @param Fd      Receives the descriptor, or -1.
 * @retval VIP_ERROR_RESOURCE The queue reports to a completion queue; or no descriptors, memory or
 *         threads are left.
 * @retval VIP_ERROR_NOT_SUPPORTED  VIPL_PROGRESS=inline: no threads; on Windows (windows.h).
 */
VIPL_API VIP_RETURN VI_CALL VipxGetFd(VIPX_FD_KIND Kind, VIP_PVOID Handle, int *Fd);

/* ---------------------------------------------------------------------------------------------
 * Statistics: what VipQuerySystemManagementInfo() reports beyond VIPL 1.0. Counters never decrease
 * while the NIC handle or the VI exists. They are always on: the library counts for itself what
 * they add
 * up. ------------------------------------------------------------------------------------------ */

/** For VipQuerySystemManagementInfo(): a VIPX_NIC_STATISTICS. */
#define VIPX_SMI_NIC_STATISTICS ((VIP_ULONG)0x56490001)
/** For VipQuerySystemManagementInfo(): a VIPX_VI_STATISTICS. */
#define VIPX_SMI_VI_STATISTICS ((VIP_ULONG)0x56490002)

/** Completed work. A descriptor counts when it becomes complete, not when the program takes it. */
typedef struct _VIPX_WORK_STATISTICS {
    VIP_UINT64 Sends;           /**< Without error, */
    VIP_UINT64 SendBytes;       /**< and their bytes. */
    VIP_UINT64 RdmaWrites;      /**< Posted by this program, without error, */
    VIP_UINT64 RdmaWriteBytes;  /**< and their bytes. */
    VIP_UINT64 RdmaReads;       /**< Posted by this program, without error, */
    VIP_UINT64 RdmaReadBytes;   /**< and their bytes. */
    VIP_UINT64 SendsFailed;     /**< Descriptors of send queues with an error, including flushed ones. */
    VIP_UINT64 Receives;        /**< Without error, including those of RDMA Writes with immediate data, */
    VIP_UINT64 ReceiveBytes;    /**< and their bytes. */
    VIP_UINT64 ReceivesFailed;  /**< Descriptors of receive queues with an error, including flushed ones. */
    VIP_UINT64 Connections;     /**< Made, by either side. */
    VIP_UINT64 ConnectionsLost; /**< Ended by anything but a call of this program. */
    VIP_UINT64 RequestsRefused; /**< Of this program, by the peer's VipConnectReject(). */
} VIPX_WORK_STATISTICS;

/** Filled by VipQuerySystemManagementInfo() with #VIPX_SMI_NIC_STATISTICS. */
typedef struct _VIPX_NIC_STATISTICS {
    VIPX_WORK_STATISTICS Work;   /**< Of all VIs that exist or have existed. */
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
 * Properties of a device: what it has beyond the attributes of VIPL 1.0, for people and for
 * scripts.
 * ------------------------------------------------------------------------------------------ */

/** For VipQuerySystemManagementInfo(): a VIPX_DEVICE_PROPERTIES. Not of shareable NIC
 * handles: #VIP_ERROR_NOT_SUPPORTED. */
#define VIPX_SMI_DEVICE_PROPERTIES ((VIP_ULONG)0x56490003)

/** A property of a device: a number, or a text. */
typedef struct _VIPX_PROPERTY {
    VIP_UINT64 Number; /**< Its value, if Text is empty. */
    VIP_CHAR Name[32]; /**< Words in lower case with '_' between them, for example "queue_pairs". */
    VIP_CHAR Text[64]; /**< Its value, or empty. */
} VIPX_PROPERTY;

/** Filled by VipQuerySystemManagementInfo() with #VIPX_SMI_DEVICE_PROPERTIES. The names are the
 * device's own. */
typedef struct _VIPX_DEVICE_PROPERTIES {
    VIP_UINT64 Count;           /**< How many there are; 0: the attributes say all. */
    VIPX_PROPERTY Property[32]; /**< As many as Count says. */
} VIPX_DEVICE_PROPERTIES;

/* ---------------------------------------------------------------------------------------------
 * What there is: devices, and the build.
 * ------------------------------------------------------------------------------------------ */

/** In VIPX_DEVICE: VipOpenNic() opens it by NULL, by "" and by the device names of old programs.
 * One device has this. */
#define VIPX_DEVICE_IS_DEFAULT ((VIP_UINT32)1)
/** In VIPX_DEVICE: another name of a device, from the setting VIPL_DEVICE_ALIASES. */
#define VIPX_DEVICE_IS_ALIAS ((VIP_UINT32)2)

/** A device that VipOpenNic() knows. */
typedef struct _VIPX_DEVICE {
    VIP_CHAR Name[64];  /**< For VipOpenNic(). */
    VIP_CHAR Text[128]; /**< What it is, for people: "interface eth0, 192.168.1.7" for example. */
    VIP_UINT32 Flags;   /**< VIPX_DEVICE_IS_... */
} VIPX_DEVICE;

/**
 * List the devices that this build knows and that this host has now: the loopback device, each
 * interface of the host that the device tcp can use, the RDMA cards, and the aliases of the setting
 * VIPL_DEVICE_ALIASES. Nothing is opened: VipOpenNic() may still fail for one of them, for lack of
 * rights for example. The settings are read at each call.
 *
 * A program that does not know how many there are calls this twice, or gives it room for 64.
 *
 * @param Devices  Receives *Count devices at most; may be NULL if *Count is 0.
 * @param Count    In: how many Devices has room for. Out: how many there are, which may be more.
 * @return VIP_SUCCESS, also if not all of them had room; VIP_INVALID_PARAMETER;
 *         VIP_ERROR_NOT_SUPPORTED in a signal handler.
 */
VIPL_API VIP_RETURN VI_CALL VipxListDevices(VIPX_DEVICE *Devices, VIP_ULONG *Count);

/**
 * Get how this library was built: words NAME=VALUE with a blank between them, for example
 * "devices=loopback,tcp,rnic rnic_model=on sharing=on waker=eventfd cpu=x86_64
 * compiler=GNU-12.2.0 build=Release". The text is constant. Async-signal-safe.
 */
VIPL_API const char *VI_CALL VipxBuildOptions(void);

/* ---------------------------------------------------------------------------------------------
 * The log
 * ------------------------------------------------------------------------------------------ */

/** How much a line of the log matters; the words of the setting VIPL_LOG. */
typedef enum _VIPX_LOG_LEVEL {
    VIPX_LOG_OFF,    /**< No line has this. */
    VIPX_LOG_ERROR,  /**< An error that no function can return; wrong settings. */
    VIPX_LOG_REASON, /**< Why a function fails, where its return code does not say it all. */
    VIPX_LOG_INFO,   /**< Devices that are opened and closed, peers that come and go. */
    VIPX_LOG_DEBUG   /**< Steps of connecting. */
} VIPX_LOG_LEVEL;

/**
 * Receives a line of the log, without a line break. It runs on the thread that has something to
 * say: one of the program's, in a call, or one of the library's, perhaps with locks held, perhaps
 * in a signal handler that called the library. So it must not block, and all functions of the
 * library but VipxStrError() and its like return VIP_ERROR_NOT_SUPPORTED in it. Several threads may
 * call it at once.
 */
typedef void (*VIPX_LOG_HANDLER)(VIP_PVOID Context, VIPX_LOG_LEVEL Level, const char *Text);

/**
 * Have a function of the program receive the log. Standard error then gets what the setting
 * VIPL_LOG asks for, and nothing if there is no such setting. There is one handler for the process,
 * which forked children inherit. What the server of shared objects has to say goes to its standard
 * error.
 *
 * Call it before other threads use the library, or while none of them does.
 *
 * @param Level    The handler receives lines up to this level; #VIPX_LOG_OFF: none.
 * @param Handler  The function; NULL: none from now on.
 * @param Context  Is given to it.
 * @return VIP_SUCCESS; VIP_INVALID_PARAMETER for another level; VIP_ERROR_NOT_SUPPORTED in a signal
 *         handler.
 */
VIPL_API VIP_RETURN VI_CALL VipxSetLogHandler(VIPX_LOG_LEVEL Level, VIPX_LOG_HANDLER Handler,
                                              VIP_PVOID Context);

/* ---------------------------------------------------------------------------------------------
 * Texts. These functions are async-signal-safe.
 * ------------------------------------------------------------------------------------------ */

/**
 * Get the name of a return code, for example "VIP_TIMEOUT", or "VIP_RETURN ?" for a number that is
 * not a return code. The text is constant.
 *
 * @param Code  What a function returned.
 */
VIPL_API const char *VI_CALL VipxStrError(VIP_RETURN Code);

/**
 * Get a sentence about a return code, for people: what it means, whichever function returned it,
 * without a full stop. The text is constant.
 *
 * @param Code  What a function returned.
 */
VIPL_API const char *VI_CALL VipxExplainError(VIP_RETURN Code);

/**
 * Write the Status of a descriptor as text, for example "DONE RDMA_WRITE DESC_FLUSHED_ERROR":
 * whether it is complete, the operation, each error, and IMMEDIATE. Bits without a name are written
 * as one hexadecimal number.
 *
 * @param Status  CS.Status of a descriptor.
 * @param Text    Receives the text, cut to what fits, with a final null byte; may be NULL if Size
 *                is 0.
 * @param Size    Bytes of Text. 256 hold the longest.
 * @return The bytes of the whole text, the null byte not counted, as snprintf() does it.
 */
VIPL_API size_t VI_CALL VipxStrStatus(VIP_UINT32 Status, char *Text, size_t Size);

/**
 * Get the version of the library that runs, for example "0.1.0"; version.h has the version that the
 * program was compiled with. The text is constant.
 */
VIPL_API const char *VI_CALL VipxVersion(void);

#ifdef __cplusplus
}
#endif

#endif
