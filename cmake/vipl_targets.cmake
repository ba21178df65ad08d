# SPDX-License-Identifier: MIT
# The only build vocabulary: vipl_objects, vipl_layer, vipl_card, vipl_backend, vipl_library; vipl_program; and
# vipl_test, vipl_catch_program in vipl_tests.cmake.

include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
include(CheckLinkerFlag)
if(VIPL_INSTALL)
    include(GNUInstallDirs)
endif()
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

# Some atomics live in libatomic: of 64 bits on some 32-bit CPUs (powerpc, mips, m68k), of 8 bits on riscv64 with older compilers.
set(vipl_atomics_source "
    #include <stdatomic.h>
    #include <stdint.h>
    static _Atomic uint64_t word;
    static _Atomic uint8_t byte;
    int main(void)
    {
        return (int)atomic_fetch_add(&word, 1) + (int)atomic_exchange(&word, 2) + (int)atomic_exchange(&byte, 1);
    }")
check_c_source_compiles("${vipl_atomics_source}" VIPL_ATOMICS_BUILT_IN)
set(vipl_private_libraries Threads::Threads)
if(NOT VIPL_ATOMICS_BUILT_IN)
    set(CMAKE_REQUIRED_LIBRARIES atomic)
    check_c_source_compiles("${vipl_atomics_source}" VIPL_ATOMICS_IN_LIBATOMIC)
    unset(CMAKE_REQUIRED_LIBRARIES)
    if(NOT VIPL_ATOMICS_IN_LIBATOMIC)
        message(FATAL_ERROR "No atomics of 8 and 64 bits, neither in the compiler nor in libatomic")
    endif()
    set(vipl_atomic_libraries atomic)
    list(APPEND vipl_private_libraries ${vipl_atomic_libraries})
endif()
if(WIN32)
    list(APPEND vipl_private_libraries synchronization advapi32 ntdll)
endif()
if(VIPL_BACKEND_TCP)
    list(APPEND vipl_private_libraries $<BUILD_INTERFACE:${VIPL_LIBUV_LIBRARY}> $<INSTALL_INTERFACE:vipl::libuv>)
    if(WIN32) # what libuv needs, and the sockets of src/os
        list(APPEND vipl_private_libraries iphlpapi ws2_32 userenv psapi dbghelp ole32 shell32 user32 advapi32)
    endif()
endif()

set(vipl_version_script "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/vipl.map")
check_linker_flag(C "${vipl_version_script}" VIPL_LINKER_HAS_VERSION_SCRIPT)
check_linker_flag(C "LINKER:-z,nodelete" VIPL_LINKER_HAS_NODELETE)
check_linker_flag(C "LINKER:-z,now" VIPL_LINKER_HAS_NOW)

# Link-time optimisation, of the shared library. The objects have both forms of their code; in the static library the compiler's own form is
# taken out, because another version of the compiler refuses it, and because it would make each link of a program slow. clang's
# objects have only one form.
set(vipl_lto OFF)
if(VIPL_LTO AND CMAKE_OBJCOPY AND NOT VIPL_SANITIZE AND NOT VIPL_COVERAGE AND CMAKE_C_COMPILER_ID STREQUAL "GNU"
   AND CMAKE_BUILD_TYPE MATCHES "^(Release|RelWithDebInfo|MinSizeRel)$")
    set(CMAKE_REQUIRED_LINK_OPTIONS -flto=auto)
    check_c_compiler_flag("-flto=auto -ffat-lto-objects" VIPL_COMPILER_HAS_LTO)
    unset(CMAKE_REQUIRED_LINK_OPTIONS)
    set(vipl_lto ${VIPL_COMPILER_HAS_LTO})
endif()

# A forked child's malloc() may stand still there; asan_fork.c says why.
set(vipl_asan_forgets_forks OFF)
if(VIPL_SANITIZE MATCHES "address" AND CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_C_COMPILER_VERSION VERSION_LESS 14)
    set(vipl_asan_forgets_forks ON)
    add_library(vipl_asan_fork OBJECT ${PROJECT_SOURCE_DIR}/cmake/asan_fork.c)
    target_compile_definitions(vipl_asan_fork PRIVATE _GNU_SOURCE=1)
endif()

# vipl_own(<target>): the project's warnings, standard and sanitizers, for its own targets only.
function(vipl_own target)
    set_target_properties(${target} PROPERTIES
        C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF
        CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
        C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin
        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib
        ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
    if(WIN32) # 8 and later: WaitOnAddress(); printf() as C11 has it
        target_compile_definitions(${target} PRIVATE _WIN32_WINNT=0x0602 __USE_MINGW_ANSI_STDIO=1)
        target_compile_definitions(${target} PRIVATE WIN32_LEAN_AND_MEAN NOGDI) # uv.h has all of windows.h otherwise
    endif()
    if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
        target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wundef
            $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings -Wvla>
            $<$<BOOL:${VIPL_WERROR}>:-Werror>)
    endif()
    if(VIPL_SANITIZE)
        string(REPLACE ";" "," sanitizers "${VIPL_SANITIZE}")
        target_compile_options(${target} PRIVATE -fsanitize=${sanitizers} -fno-sanitize-recover=all
                               -fno-omit-frame-pointer
                               # It looks for what C leaves undefined; in the tests' templates it takes most of the time.
                               $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=undefined>
                               # gcc 12 takes instrumented library code for uninitialised.
                               $<$<CXX_COMPILER_ID:GNU>:$<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>>)
        if(VIPL_SANITIZE MATCHES "thread" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
            target_compile_options(${target} PRIVATE -Wno-tsan) # fences, which ThreadSanitizer does not follow
        endif()
        target_link_options(${target} PRIVATE -fsanitize=${sanitizers})
    endif()
    if(vipl_asan_forgets_forks)
        target_link_options(${target} PRIVATE -static-libasan)
        get_target_property(type ${target} TYPE)
        if(type STREQUAL "EXECUTABLE")
            target_sources(${target} PRIVATE $<TARGET_OBJECTS:vipl_asan_fork>)
        endif()
    endif()
    if(VIPL_COVERAGE)
        target_compile_options(${target} PRIVATE --coverage)
        target_link_options(${target} PRIVATE --coverage)
    endif()
endfunction()

# vipl_internal_includes(<target>): the private header root. No folder below it is one: src/os has names that systems have, too (process.h).
function(vipl_internal_includes target)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
    # The C library shows POSIX and its own functions under -std=c11 only when asked to.
    target_compile_definitions(${target} PRIVATE $<$<COMPILE_LANGUAGE:C>:_GNU_SOURCE=1>
                               VIPL_SHARING=$<BOOL:${VIPL_SHARING}>)
endfunction()

# Signal handlers call the library, and small threads (include/vipl/posix.h): lists do not belong on the stack. The files named here
# start processes and open devices, in calls that are not for handlers.
set(vipl_most_frame 1792)
set(vipl_large_frames src/os/linux/vfio.c src/share/client_start.c src/vfio_user/client.c)

# vipl_objects(<target>): the library's code, compiled once.
function(vipl_objects target)
    add_library(${target} OBJECT)
    vipl_own(${target})
    vipl_internal_includes(${target})
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_compile_definitions(${target} PRIVATE VIPL_BUILDING
                               VIPL_SERVER_PROGRAM="$<$<BOOL:${VIPL_INSTALL}>:${CMAKE_INSTALL_FULL_LIBEXECDIR}/vipl-server>"
                               VIPL_RNICD_PROGRAM="$<$<BOOL:${VIPL_INSTALL}>:${CMAKE_INSTALL_FULL_LIBEXECDIR}/vipl-rnicd>")
    target_link_libraries(${target} PRIVATE Threads::Threads)
    if(vipl_lto)
        target_compile_options(${target} PRIVATE -flto=auto -ffat-lto-objects)
    endif()
    if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang" AND NOT VIPL_SANITIZE AND NOT VIPL_COVERAGE)
        target_compile_options(${target} PRIVATE -Wframe-larger-than=${vipl_most_frame})
        list(TRANSFORM vipl_large_frames PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE files)
        set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS -Wno-frame-larger-than)
    endif()
    if(VIPL_BACKEND_TCP)
        target_include_directories(${target} SYSTEM PRIVATE ${VIPL_LIBUV_INCLUDE})
    endif()
endfunction()

# vipl_layer(<folder> <file>...): adds a folder's sources to the library. What the driver of the card needs is in vipl_driver_objects, with the
# driver: libvipldm has these, and nothing of the VI Architecture.
function(vipl_layer folder)
    set(target vipl_objects)
    if(folder MATCHES "^src/(base|bus|iwarp|os|start|vfio_user)(/|$)")
        set(target vipl_driver_objects)
    endif()
    list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/${folder}/)
    target_sources(${target} PRIVATE ${ARGN})
endfunction()

# vipl_card(<target> <folder> <file>...): the model of a device, an object library that needs nothing but the codecs of src/iwarp.
function(vipl_card target folder)
    list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/${folder}/)
    add_library(${target} OBJECT EXCLUDE_FROM_ALL ${ARGN})
    vipl_own(${target})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()

# vipl_part(<target> <folder> <file>...): objects apart from the library's: the driver of the card; the adapter process, which calls the model of
# the card, so that a test may put another one in its place; and what only its program has.
function(vipl_part target folder)
    list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/${folder}/)
    if(NOT TARGET ${target})
        add_library(${target} OBJECT EXCLUDE_FROM_ALL)
        vipl_own(${target})
        vipl_internal_includes(${target})
        set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
        target_link_libraries(${target} PRIVATE Threads::Threads)
    endif()
    target_sources(${target} PRIVATE ${ARGN})
endfunction()

# vipl_backend(<name> <file>...): adds src/backends/<name> and its line in the table, if VIPL_BACKEND_<NAME> is on.
macro(vipl_backend name)
    string(TOUPPER "VIPL_BACKEND_${name}" vipl_backend_option)
    if(${vipl_backend_option})
        vipl_layer(src/backends/${name} ${ARGN})
        list(APPEND vipl_backend_names ${name})
    endif()
endmacro()

# vipl_build_options(<variable>): what VipxBuildOptions() returns.
function(vipl_build_options variable)
    string(REPLACE ";" "," devices "${vipl_backend_names}")
    set(words devices=${devices})
    foreach(option IN ITEMS BACKEND_RNIC_MODEL SHARING LTO)
        string(TOLOWER "${option}" word)
        string(REPLACE "backend_" "" word "${word}")
        if(VIPL_${option})
            list(APPEND words ${word}=on)
        else()
            list(APPEND words ${word}=off)
        endif()
    endforeach()
    if(WIN32)
        list(APPEND words waker=event)
    elseif(VIPL_OS_PORTABLE OR NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
        list(APPEND words waker=pipe)
    else()
        list(APPEND words waker=eventfd)
    endif()
    if(VIPL_SANITIZE)
        list(APPEND words sanitize=${VIPL_SANITIZE})
    endif()
    list(APPEND words system=${CMAKE_SYSTEM_NAME} cpu=${CMAKE_SYSTEM_PROCESSOR}
                compiler=${CMAKE_C_COMPILER_ID}-${CMAKE_C_COMPILER_VERSION})
    if(CMAKE_BUILD_TYPE)
        list(APPEND words build=${CMAKE_BUILD_TYPE})
    endif()
    string(JOIN " " text ${words})
    set(${variable} "${text}" PARENT_SCOPE)
endfunction()

# vipl_backend_table(): writes out the array of built-in backends.
function(vipl_backend_table)
    set(declarations "")
    set(entries "")
    foreach(name IN LISTS vipl_backend_names)
        string(APPEND declarations "extern const struct vipl_backend vipl_${name}_ops;\n")
        string(APPEND entries "    &vipl_${name}_ops,\n")
    endforeach()
    if(VIPL_SHARING)
        set(sharing_include "#include \"server/server.h\"\n")
        set(sharing_entry "vipl_server_entry *const vipl_server_in_fork = vipl_server_run;\n")
    endif()
    vipl_build_options(build_options)
    set(table ${PROJECT_BINARY_DIR}/src/core/backend_table.c)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/backend_table.c.in ${table} @ONLY)
    target_sources(vipl_objects PRIVATE ${table})
endfunction()

# vipl_rnic_table(): writes out the ways to a card, and what the driver of the card has of the model.
function(vipl_rnic_table)
    set(adapter_include "")
    set(adapter_in_fork NULL)
    set(open_model NULL)
    set(openers "")
    set(say_adapter NULL)
    if(VIPL_BACKEND_RNIC_MODEL)
        set(open_model rnic_pci_inproc_open)
        if(vipl_has_adapter)
            set(adapter_include "#include \"adapter/serve.h\"\n")
            set(adapter_in_fork rnic_adapter_fork)
        endif()
    endif()
    if(vipl_has_adapter)
        foreach(way IN ITEMS vfio_user bus vfio sysfs)
            string(APPEND openers "rnic_pci_${way}_open, ")
        endforeach()
        set(say_adapter rnic_pci_adapter_say)
    endif()
    set(table ${PROJECT_BINARY_DIR}/src/backends/rnic/rnic_table.c)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/rnic_table.c.in ${table} @ONLY)
    target_sources(vipl_driver_objects PRIVATE ${table})
endfunction()

# vipl_public_includes(<target> <source folder> <folder below the installed include folder>)
function(vipl_public_includes target folder installed)
    target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/${folder}>)
    if(VIPL_INSTALL)
        target_include_directories(${target} INTERFACE
                                   $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}${installed}>)
    endif()
endfunction()

# What the library, and each program that has its code, is linked from.
set(vipl_card_objects $<TARGET_OBJECTS:vipl_driver_objects>)
set(vipl_model_objects $<TARGET_OBJECTS:vipl_rnic_card>)
if(vipl_has_adapter)
    list(PREPEND vipl_model_objects $<TARGET_OBJECTS:vipl_adapter_objects>)
endif()
if(VIPL_BACKEND_RNIC_MODEL)
    list(APPEND vipl_card_objects ${vipl_model_objects})
endif()
set(vipl_library_objects $<TARGET_OBJECTS:vipl_objects> ${vipl_card_objects})

# vipl_library(<shared|static> <SHARED|STATIC>): the target vipl_<kind>, alias vipl::<kind>.
function(vipl_library kind type)
    set(target vipl_${kind})
    add_library(${target} ${type} ${vipl_library_objects})
    add_library(vipl::${kind} ALIAS ${target})
    vipl_own(${target})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME vipl EXPORT_NAME ${kind} LINKER_LANGUAGE C)
    vipl_public_includes(${target} include "")
    target_link_libraries(${target} PRIVATE ${vipl_private_libraries})
    if(vipl_lto AND type STREQUAL "STATIC")
        add_custom_command(TARGET ${target} POST_BUILD COMMAND ${CMAKE_OBJCOPY} "--remove-section=.gnu.lto_*"
                           "--remove-section=.gnu.debuglto_*" $<TARGET_FILE:${target}> VERBATIM)
    endif()
    if(type STREQUAL "SHARED")
        set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
        if(WIN32)
            target_compile_definitions(${target} INTERFACE VIPL_SHARED)
            set_target_properties(${target} PROPERTIES PREFIX "") # vipl.dll, as programs of the time know it
            target_link_options(${target} PRIVATE -static) # the compiler's own libraries
        endif()
        if(vipl_lto)
            target_link_options(${target} PRIVATE -flto=auto)
        endif()
        if(VIPL_LINKER_HAS_VERSION_SCRIPT)
            target_link_options(${target} PRIVATE ${vipl_version_script})
            set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/vipl.map)
        endif()
        if(VIPL_LINKER_HAS_NODELETE)
            # Object pools keep their type for ever and library threads may be running: the code
            # stays mapped after dlclose.
            target_link_options(${target} PRIVATE LINKER:-z,nodelete)
        endif()
        if(VIPL_LINKER_HAS_NOW)
            # Finding a function at its first call takes more stack than the whole call, and locks of the loader's: not in a handler.
            target_link_options(${target} PRIVATE LINKER:-z,now)
        endif()
    endif()
endfunction()

# vipl_default_library(): vipl::vipl is the shared library, or what BUILD_SHARED_LIBS says if the
# builder has set it; vipl::compat adds the folder of <vipl.h>.
macro(vipl_default_library)
    set(vipl_default static)
    if(VIPL_BUILD_SHARED AND (NOT VIPL_BUILD_STATIC OR BUILD_SHARED_LIBS OR NOT DEFINED BUILD_SHARED_LIBS))
        set(vipl_default shared)
    endif()
    add_library(vipl INTERFACE)
    add_library(vipl::vipl ALIAS vipl)
    target_link_libraries(vipl INTERFACE vipl_${vipl_default})
    add_library(vipl_compat INTERFACE)
    add_library(vipl::compat ALIAS vipl_compat)
    set_target_properties(vipl_compat PROPERTIES EXPORT_NAME compat)
    vipl_public_includes(vipl_compat include/vipl/compat /vipl/compat)
    target_link_libraries(vipl_compat INTERFACE vipl)
endmacro()

# vipl_helper(<target> <name> <folder> <file>...): a program that the library runs, installed as libexec/<name>. It has the library's code
# in it, because it is of the same version.
function(vipl_helper target name folder)
    list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/${folder}/)
    add_executable(${target} ${ARGN} ${vipl_library_objects})
    vipl_own(${target})
    vipl_internal_includes(${target})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} LINKER_LANGUAGE C
                          RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/libexec)
    if(vipl_lto)
        target_link_options(${target} PRIVATE -fno-lto) # it is linked fast
    endif()
    target_link_libraries(${target} PRIVATE ${vipl_private_libraries})
endfunction()

# vipl_program(<target> <source>...): a C program of this project, on the public interface.
function(vipl_program target)
    add_executable(${target} ${ARGN})
    vipl_own(${target})
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE=1)
    target_link_libraries(${target} PRIVATE vipl Threads::Threads)
    if(WIN32)
        target_link_options(${target} PRIVATE -static) # the compiler's own libraries; vipl.dll stays beside
    endif()
endfunction()
