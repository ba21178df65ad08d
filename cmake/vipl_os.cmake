# SPDX-License-Identifier: MIT
# What the library has of src/os: one list for each system. src/os/any needs no system header.

vipl_layer(src/os/any
    biased.c
    fault.c
    memory.c
    mutex.c
    rank.c)
vipl_layer(src/os/posix
    fork.c
    output.c
    pages.c
    poll.c
    process.c
    sockaddr.c
    socket.c
    spawn.c
    standard.c
    thread.c)
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
    vipl_layer(src/os/linux
        barrier.c
        dma_file.c
        futex.c
        hidden_child.c
        local.c
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
        watch.c
        wire.c)
endif()
if(VIPL_WAKER_PIPE)
    vipl_layer(src/os/posix waker.c)
else()
    vipl_layer(src/os/linux waker.c)
endif()
