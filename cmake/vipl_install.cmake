# SPDX-License-Identifier: MIT
# What is installed, and how others find it: CMake package, pkg-config.

include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/vipl)
set(targets vipl vipl_compat)
foreach(kind IN ITEMS shared static)
    if(TARGET vipl_${kind})
        list(APPEND targets vipl_${kind})
    endif()
endforeach()
install(TARGETS ${targets} EXPORT vipl
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
if(VIPL_BUILD_DM)
    install(TARGETS ${vipl_dm_targets} EXPORT vipl
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
            ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
endif()
if(VIPL_BUILD_DM)
    install(FILES docs/rnic/traffic.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/rnic COMPONENT development)
endif()
install(EXPORT vipl NAMESPACE vipl:: FILE vipl-targets.cmake DESTINATION ${package_dir} COMPONENT development)
configure_package_config_file(cmake/vipl-config.cmake.in ${PROJECT_BINARY_DIR}/vipl-config.cmake
                              INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/vipl-config-version.cmake
                                 VERSION ${PROJECT_VERSION} COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/vipl-config.cmake ${PROJECT_BINARY_DIR}/vipl-config-version.cmake
        DESTINATION ${package_dir} COMPONENT development)

set(not_installed_headers "")
if(NOT VIPL_BUILD_DM)
    set(not_installed_headers PATTERN "device_memory.h" EXCLUDE)
endif()
if(NOT WIN32)
    list(APPEND not_installed_headers PATTERN "windows.h" EXCLUDE)
endif()
install(DIRECTORY include/vipl DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
        FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" ${not_installed_headers})

# pkg-config: paths relative to the file itself, so that an installed tree may be moved.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
    set(pc_prefix ${CMAKE_INSTALL_PREFIX})
    set(pc_libdir ${CMAKE_INSTALL_FULL_LIBDIR})
    set(pc_includedir ${CMAKE_INSTALL_FULL_INCLUDEDIR})
else()
    file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
    string(REGEX REPLACE "/$" "" up "${up}")
    set(pc_prefix "\${pcfiledir}/${up}")
    set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
    set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
set(pc_private_libs "-pthread")
if("atomic" IN_LIST vipl_private_libraries)
    string(APPEND pc_private_libs " -latomic")
endif()
if(VIPL_BACKEND_TCP)
    find_library(VIPL_LIBUV_ARCHIVE uv_a) # what static programs link, where it has a name of its own
    mark_as_advanced(VIPL_LIBUV_ARCHIVE)
    if(VIPL_LIBUV_ARCHIVE)
        string(APPEND pc_private_libs " -luv_a -ldl -lrt")
    else()
        string(APPEND pc_private_libs " -luv")
    endif()
endif()
set(pc_names vipl vipl-compat)
if(VIPL_BUILD_DM)
    list(APPEND pc_names vipl-dm)
endif()
foreach(name IN LISTS pc_names)
    configure_file(cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
            COMPONENT development)
endforeach()

foreach(program IN ITEMS vipl_server vipl_rnicd)
    if(TARGET ${program})
        install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR} COMPONENT runtime)
    endif()
endforeach()
if(TARGET vipl_dm_dpdk)
    install(TARGETS vipl_dm_dpdk LIBRARY DESTINATION ${CMAKE_INSTALL_LIBEXECDIR} COMPONENT runtime)
endif()
if(TARGET vipl_sockets)
    install(TARGETS vipl_sockets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/vipl COMPONENT runtime)
endif()
# The card: what others need to write a driver or hardware, and to read its frames.
if(TARGET vipl_rnicd)
    install(FILES tools/man/vipl-rnicd.8 DESTINATION ${CMAKE_INSTALL_MANDIR}/man8 COMPONENT runtime)
    install(FILES src/rnic/registers.json src/rnic/registers.h src/rnic/registers.py tools/wireshark/efe.lua
            DESTINATION ${CMAKE_INSTALL_DATADIR}/vipl/rnic COMPONENT development)
    install(FILES docs/rnic/card.md docs/rnic/efe.md docs/rnic/guest.md docs/rnic/hardware.md docs/rnic/log.md docs/rnic/socket.md
            DESTINATION ${CMAKE_INSTALL_DOCDIR}/rnic COMPONENT development)
endif()

# Tools, found beside the library wherever the tree is put.
set(tools "")
foreach(tool IN ITEMS vipl-info vipl-ping vipl-perf vipl-run vipl-rnic-log vipl-gen vipl-cap vipl-conformance)
    if(TARGET ${tool})
        list(APPEND tools ${tool})
    endif()
endforeach()
if(tools)
    file(RELATIVE_PATH bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
    set_target_properties(${tools} PROPERTIES INSTALL_RPATH "\$ORIGIN/${bin_to_lib}")
    set(maybe "")
    if(VIPL_TESTS_ON_DEMAND) # it may not be there
        set(maybe vipl-conformance)
        list(REMOVE_ITEM tools ${maybe})
    endif()
    install(TARGETS ${tools} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
    if(TARGET "${maybe}")
        install(TARGETS ${maybe} OPTIONAL RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
    endif()
    set(not_installed_pages "")
    if(NOT TARGET vipl-gen)
        set(not_installed_pages PATTERN "vipl-gen.1" EXCLUDE PATTERN "vipl-cap.1" EXCLUDE)
    endif()
    if(EXISTS ${PROJECT_SOURCE_DIR}/tools/man)
        install(DIRECTORY tools/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools
                FILES_MATCHING PATTERN "*.1" ${not_installed_pages})
    endif()
endif()

# Manual pages: vipl(7) as it is; a page for each function, from the headers' comments, and vipl.conf(5), from docs/use/settings.md.
if(EXISTS ${PROJECT_SOURCE_DIR}/tools/man)
    install(FILES tools/man/vipl.7 DESTINATION ${CMAKE_INSTALL_MANDIR}/man7 COMPONENT development)
    find_program(VIPL_PYTHON python3)
    mark_as_advanced(VIPL_PYTHON)
    if(VIPL_PYTHON)
        set(man ${PROJECT_BINARY_DIR}/man)
        set(man_headers vipl.h posix.h cache.h)
        if(VIPL_BUILD_DM)
            list(APPEND man_headers device_memory.h)
        endif()
        list(TRANSFORM man_headers PREPEND ${PROJECT_SOURCE_DIR}/include/vipl/)
        add_custom_command(OUTPUT ${man}/done
            COMMAND ${VIPL_PYTHON} ${PROJECT_SOURCE_DIR}/tools/man3.py ${man}/man3 ${PROJECT_VERSION} ${man_headers}
            COMMAND ${VIPL_PYTHON} ${PROJECT_SOURCE_DIR}/tools/man5.py ${PROJECT_SOURCE_DIR}/docs/use/settings.md ${man}/vipl.conf.5
            COMMAND ${CMAKE_COMMAND} -E touch ${man}/done
            DEPENDS ${man_headers} docs/use/settings.md tools/man3.py tools/man5.py VERBATIM)
        add_custom_target(vipl_man ALL DEPENDS ${man}/done)
        install(DIRECTORY ${man}/man3 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT development)
        install(FILES ${man}/vipl.conf.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5 COMPONENT development)
    endif()
    install(FILES tools/gdb/vipl.py DESTINATION ${CMAKE_INSTALL_DATADIR}/vipl/gdb COMPONENT development)
    install(FILES tools/wireshark/rdmap.lua DESTINATION ${CMAKE_INSTALL_DATADIR}/vipl/wireshark COMPONENT development)
endif()

install(FILES LICENSE README.md CHANGELOG.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR}
        COMPONENT development)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development
        FILES_MATCHING PATTERN "*.[ch]" PATTERN "*.cpp" PATTERN "*.py")
