# SPDX-License-Identifier: MIT
# What the library has of src/os: one list for each system. src/os/any needs no system header, src/os/posix no system of its own.

vipl_layer(src/os/any
    biased.c
    fault.c
    memory.c
    mutex.c
    rank.c)
# macOS has what the BSDs have, but for some of their calls: VIPL_OS_PORTABLE has the same replacements, so that they are tested.
set(vipl_os_bsd OFF)
if(CMAKE_SYSTEM_NAME MATCHES "^(FreeBSD|NetBSD|OpenBSD|Darwin)$")
    set(vipl_os_bsd ON)
endif()
if(WIN32 OR VIPL_OS_PORTABLE OR vipl_os_bsd) # what only Linux has, and is done without
    vipl_layer(src/os/any
        no_barrier.c
        no_mappable.c
        no_shared_waker.c
        no_threads.c
        no_watch.c)
endif()
if(WIN32)
    vipl_layer(src/os/windows
        channel.c
        descriptor.c
        error.c
        event.c
        local.c
        no_fork.c
        output.c
        owner.c
        pages.c
        peer.c
        pollset.c
        port.c
        process.c
        safe_copy.c
        shm.c
        sleeper.c
        thread.c
        wait.c
        word.c)
    vipl_layer(src/api
        vipx_event.c)
    if(VIPL_BACKEND_TCP)
        vipl_layer(src/os/windows
            socket.c)
        vipl_layer(src/os/posix
            sockaddr.c)
    endif()
    return()
endif()
if(VIPL_OS_PORTABLE OR vipl_os_bsd)
    vipl_layer(src/os/any
        no_peer.c)
endif()
vipl_layer(src/os/posix
    entropy.c
    fork.c
    local.c
    output.c
    pages.c
    path_lock.c
    pipe_copy.c
    poll.c
    process.c
    shm.c
    signals.c
    sockaddr.c
    socket.c
    standard.c
    thread.c)
if(VIPL_OS_PORTABLE OR vipl_os_bsd)
    # What systems have whose only calls are those of POSIX, or nearly so. Who is at the other end of a socket, and sets of descriptors, each
    # system has in a way of its own.
    vipl_layer(src/os/posix
        folder.c
        futex.c
        local_name.c
        safe_copy.c
        shm_file.c
        waker.c)
    if(vipl_os_bsd AND NOT CMAKE_SYSTEM_NAME STREQUAL "Darwin")
        vipl_layer(src/os/posix
            descriptor.c
            local_packet.c
            ppoll.c)
    else()
        vipl_layer(src/os/posix
            flagged.c
            local_stream.c
            pselect.c)
    endif()
    if(vipl_os_bsd)
        vipl_layer(src/os/bsd
            credentials.c
            pollset.c)
    else()
        vipl_layer(src/os/linux
            credentials.c
            pollset.c)
    endif()
elseif(CMAKE_SYSTEM_NAME STREQUAL "Linux")
    vipl_layer(src/os/posix
        descriptor.c
        local_packet.c
        ppoll.c
        spawn.c)
    vipl_layer(src/os/linux
        barrier.c
        credentials.c
        dma_file.c
        folder.c
        futex.c
        hidden_child.c
        local_name.c
        mapping.c
        pci.c
        peer.c
        pollset.c
        rights.c
        safe_copy.c
        shm.c
        threads.c
        unix.c
        vfio.c
        waker.c
        watch.c
        wire.c)
endif()
