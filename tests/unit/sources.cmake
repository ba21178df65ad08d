# SPDX-License-Identifier: MIT
# The unit tests, a file each, that a build with its options has. Sets `sources`, and `left_out_sources` to those
# of them that vipl_left_out() has left out: what they call may not be there.

set(sources
    test_cache_room.cpp
    test_cache_verify.cpp
    test_copy.cpp
    test_crc32c.cpp
    test_default_handler.cpp
    test_deferred.cpp
    test_descriptor.cpp
    test_device_memory.cpp
    test_device_quiesce.cpp
    test_device_receives.cpp
    test_fifo.cpp
    test_handle.cpp
    test_hostile_link.cpp
    test_hostname.cpp
    test_intervals.cpp
    test_local_message.cpp
    test_local_name.cpp
    test_mapping.cpp
    test_memory.cpp
    test_mpa.cpp
    test_biased.cpp
    test_mutex.cpp
    test_mutex_fork.cpp
    test_outcome.cpp
    test_output.cpp
    test_control.cpp
    test_limits.cpp
    test_packets.cpp
    test_parts.cpp
    test_peer.cpp
    test_pieces.cpp
    test_pool.cpp
    test_queue.cpp
    test_poll_filter.cpp
    test_raw_caller.cpp
    test_raw_listener.cpp
    test_raw_peer.cpp
    test_rdmap.cpp
    test_regions.cpp
    test_ring.cpp
    test_ring_hostile.cpp
    test_roles.cpp
    test_mapped.cpp
    test_safe_copy.cpp
    test_settings.cpp
    test_sleep.cpp
    test_deferred_flush.cpp
    test_spin.cpp
    test_waiting.cpp
    test_watch.cpp
    test_wakers.cpp
    test_exports.cpp
    test_accesses.cpp)
if(VIPL_BACKEND_TCP)
    list(APPEND sources test_tcp_turns.cpp)
endif()
if(VIPL_SHARING)
    list(APPEND sources test_late_child.cpp test_server_posts.cpp test_share_posts.cpp test_share_ready.cpp test_share_rights.cpp)
endif()
if(VIPL_BACKEND_RNIC)
    list(APPEND sources test_cm.cpp test_pci.cpp test_pci_iova.cpp test_rnic_growth.cpp test_verbs.cpp test_verbs_memory.cpp
         test_verbs_window.cpp)
endif()
if(VIPL_BACKEND_RNIC_MODEL)
    list(APPEND sources test_rnic_answers.cpp test_rnic_connected.cpp test_rnic_requests.cpp test_rnic_waits.cpp test_verbs_model.cpp)
endif()
set(left_out_sources "")
foreach(source IN LISTS sources)
    string(REGEX REPLACE "^test_(.*)\\.cpp$" "\\1" name ${source})
    vipl_is_left_out(left_out unit.${name})
    if(left_out)
        list(APPEND left_out_sources ${source})
    endif()
endforeach()
if(left_out_sources)
    list(REMOVE_ITEM sources ${left_out_sources})
endif()
