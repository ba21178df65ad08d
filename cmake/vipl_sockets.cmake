# SPDX-License-Identifier: MIT
# libvipl-sockets.so: the library's objects, the streams and src/sockets in one file, which is loaded before the C library. It exports the
# functions of src/sockets/sock_names.h and nothing else; references of its own to these functions lead to the C library's.

set(vipl_sockets_names ${PROJECT_SOURCE_DIR}/src/sockets/sock_names.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${vipl_sockets_names})
file(READ ${vipl_sockets_names} vipl_sockets_list)
if(vipl_has_time64) # 32-bit programs may have a time_t of 64 bits, and call other names then
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/sockets/sock_names_time64.h)
    file(READ ${PROJECT_SOURCE_DIR}/src/sockets/sock_names_time64.h vipl_sockets_list_time64)
    string(APPEND vipl_sockets_list "${vipl_sockets_list_time64}")
endif()
string(REGEX MATCHALL "\nSOCK_(LIST\\(|[A-Z]+\\([^,]+,[ \n]*)[a-zA-Z0-9_]+" vipl_sockets_list "${vipl_sockets_list}")
list(TRANSFORM vipl_sockets_list REPLACE ".*[ \n,(]([a-zA-Z0-9_]+)$" "\\1")
list(TRANSFORM vipl_sockets_list PREPEND "LINKER:--wrap=" OUTPUT_VARIABLE vipl_sockets_wraps)
string(REPLACE ";" ";\n    " vipl_sockets_globals "${vipl_sockets_list}")
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/src/sockets/sockets.map
     CONTENT "{\n  global:\n    @vipl_sockets_globals@;\n  local:\n    *;\n};\n" @ONLY)

set_source_files_properties(${PROJECT_SOURCE_DIR}/src/sockets/interpose.c ${PROJECT_SOURCE_DIR}/src/sockets/interpose_wait.c
                            ${PROJECT_SOURCE_DIR}/src/sockets/stdio.c ${PROJECT_SOURCE_DIR}/src/sockets/exec.c
                            PROPERTIES COMPILE_OPTIONS -fvisibility=default)
add_library(vipl_sockets SHARED ${vipl_library_objects} $<TARGET_OBJECTS:vipl_stream_objects> $<TARGET_OBJECTS:vipl_sockets_parts>
            $<TARGET_OBJECTS:vipl_sockets_objects>)
vipl_own(vipl_sockets)
set_target_properties(vipl_sockets PROPERTIES OUTPUT_NAME vipl-sockets LINKER_LANGUAGE C
                      LINK_DEPENDS ${PROJECT_BINARY_DIR}/src/sockets/sockets.map)
target_link_libraries(vipl_sockets PRIVATE ${vipl_private_libraries} ${CMAKE_DL_LIBS})
target_link_options(vipl_sockets PRIVATE ${vipl_sockets_wraps} LINKER:--version-script=${PROJECT_BINARY_DIR}/src/sockets/sockets.map
                    LINKER:-z,nodelete LINKER:-z,now)
if(NOT VIPL_SANITIZE) # a sanitizer's functions are the program's, which has to be built with the sanitizer too
    target_link_options(vipl_sockets PRIVATE LINKER:-z,defs)
endif()
if(vipl_lto)
    target_link_options(vipl_sockets PRIVATE -fno-lto) # what the linker wraps must be known to it
endif()
