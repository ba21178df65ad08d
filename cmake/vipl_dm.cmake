# SPDX-License-Identifier: MIT
# libvipldm: recorded packets between a store, memory and a port. A library of its own, which needs nothing of libvipl. Where the card is built, it
# has the driver of the card in it, and what the driver stands on, but not the VI Architecture. Its targets are
# vipl_dm_shared and vipl_dm_static (vipl::dm_shared, vipl::dm_static), and vipl::dm, the one that programs take.

# io_uring, through liburing, where it is; else a thread moves chunks.
find_path(VIPL_LIBURING_INCLUDE liburing.h)
find_library(VIPL_LIBURING_LIBRARY uring)
mark_as_advanced(VIPL_LIBURING_INCLUDE VIPL_LIBURING_LIBRARY)
set(vipl_dm_uring 0)
set(vipl_dm_libraries Threads::Threads)
set(vipl_dm_pc_libraries "-pthread")
if(VIPL_LIBURING_INCLUDE AND VIPL_LIBURING_LIBRARY)
    set(vipl_dm_uring 1)
    list(APPEND vipl_dm_libraries $<BUILD_INTERFACE:${VIPL_LIBURING_LIBRARY}> $<INSTALL_INTERFACE:uring>)
    string(APPEND vipl_dm_pc_libraries " -luring")
else()
    message(STATUS "VIPL: libvipldm moves chunks by a thread, because liburing was not found")
endif()

vipl_part(vipl_dm_objects src/dm
    capture.c
    capture_open.c
    clock.c
    index.c
    index_file.c
    memory.c
    memory_bar.c
    memory_p2p.c
    memory_ram.c
    nvme/controller.c
    nvme/label.c
    nvme/memory_cmb.c
    nvme/queue.c
    nvme/reach.c
    nvme/shared.c
    nvme/store_nvme.c
    nvme/transfers.c
    output.c
    pace.c
    path.c
    pcap.c
    pcapng.c
    pci_vfio.c
    port.c
    port_packet.c
    port_plugin.c
    queue_thread.c
    reason.c
    recording.c
    section.c
    sender.c
    sender_chunks.c
    sender_open.c
    slot.c
    store.c
    store_file.c
    tag.c)
if(vipl_dm_uring)
    vipl_part(vipl_dm_objects src/dm queue_uring.c)
    target_include_directories(vipl_dm_objects SYSTEM PRIVATE ${VIPL_LIBURING_INCLUDE})
endif()
# The card, by its driver. It makes descriptors, and threads: its library stays where it is.
set(vipl_dm_library_objects $<TARGET_OBJECTS:vipl_dm_objects>)
set(vipl_dm_rnic 0)
if(VIPL_BACKEND_RNIC)
    set(vipl_dm_rnic 1)
    vipl_part(vipl_dm_objects src/dm
        rnic/card.c
        rnic/launch.c
        rnic/memory_rnic.c
        rnic/port_rnic.c)
    list(APPEND vipl_dm_library_objects ${vipl_card_objects})
    if(NOT VIPL_ATOMICS_BUILT_IN)
        list(APPEND vipl_dm_libraries atomic)
        string(APPEND vipl_dm_pc_libraries " -latomic")
    endif()
endif()
# Files of more than 2 GiB, on every CPU.
target_compile_definitions(vipl_dm_objects PRIVATE VIPL_DM_URING=${vipl_dm_uring} VIPL_DM_RNIC=${vipl_dm_rnic} _FILE_OFFSET_BITS=64
                           VIPL_DM_DPDK_PLUGIN="${CMAKE_INSTALL_FULL_LIBEXECDIR}/vipl-dm-dpdk.so")
list(APPEND vipl_dm_libraries ${CMAKE_DL_LIBS})

# vipl_dm_library(<shared|static> <SHARED|STATIC>)
function(vipl_dm_library kind type)
    set(target vipl_dm_${kind})
    add_library(${target} ${type} ${vipl_dm_library_objects})
    add_library(vipl::dm_${kind} ALIAS ${target})
    vipl_own(${target})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME vipldm EXPORT_NAME dm_${kind} LINKER_LANGUAGE C)
    vipl_public_includes(${target} include "")
    target_link_libraries(${target} PRIVATE ${vipl_dm_libraries})
    if(vipl_lto AND type STREQUAL "STATIC")
        add_custom_command(TARGET ${target} POST_BUILD COMMAND ${CMAKE_OBJCOPY} "--remove-section=.gnu.lto_*"
                           "--remove-section=.gnu.debuglto_*" $<TARGET_FILE:${target}> VERBATIM)
    endif()
    if(type STREQUAL "SHARED")
        if(vipl_dm_rnic AND VIPL_LINKER_HAS_NODELETE)
            target_link_options(${target} PRIVATE LINKER:-z,nodelete)
        endif()
        if(vipl_lto)
            target_link_options(${target} PRIVATE -fno-lto) # it is linked fast
        endif()
        set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
        if(VIPL_LINKER_HAS_VERSION_SCRIPT)
            target_link_options(${target} PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/vipl_dm.map)
            set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/vipl_dm.map)
        endif()
    endif()
endfunction()
set(vipl_dm_targets vipl_dm)
if(VIPL_BUILD_SHARED)
    vipl_dm_library(shared SHARED)
    list(APPEND vipl_dm_targets vipl_dm_shared)
endif()
if(VIPL_BUILD_STATIC)
    vipl_dm_library(static STATIC)
    list(APPEND vipl_dm_targets vipl_dm_static)
endif()
add_library(vipl_dm INTERFACE)
add_library(vipl::dm ALIAS vipl_dm)
set_target_properties(vipl_dm PROPERTIES EXPORT_NAME dm)
target_link_libraries(vipl_dm INTERFACE vipl_dm_${vipl_default})

# The plug-in for DPDK, which has what it needs of the library in it.
if(VIPL_DM_DPDK)
    find_package(PkgConfig REQUIRED)
    pkg_check_modules(VIPL_DPDK REQUIRED libdpdk>=22.11)
    vipl_part(vipl_dm_dpdk_objects src/dm
        clock.c
        reason.c
        tag.c
        dpdk/eal.c
        dpdk/port_dpdk.c
        dpdk/sending.c
        dpdk/slots.c)
    target_include_directories(vipl_dm_dpdk_objects SYSTEM PRIVATE ${VIPL_DPDK_INCLUDE_DIRS})
    # 22.11 has mapping for DMA among what may change.
    target_compile_options(vipl_dm_dpdk_objects PRIVATE ${VIPL_DPDK_CFLAGS_OTHER} -DALLOW_EXPERIMENTAL_API)
    add_library(vipl_dm_dpdk MODULE $<TARGET_OBJECTS:vipl_dm_dpdk_objects>)
    vipl_own(vipl_dm_dpdk)
    set_target_properties(vipl_dm_dpdk PROPERTIES PREFIX "" OUTPUT_NAME vipl-dm-dpdk LINKER_LANGUAGE C
                          LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/libexec)
    target_link_libraries(vipl_dm_dpdk PRIVATE ${VIPL_DPDK_LINK_LIBRARIES} Threads::Threads)
endif()
