# SPDX-License-Identifier: MIT
# How tests are built and named. Where they are run: vipl_parts.cmake.

include(${CMAKE_CURRENT_LIST_DIR}/vipl_parts.cmake)

# Whether an emulator runs this build's programs: not every program of another CPU needs one.
set(VIPL_EMULATED OFF)
if(CMAKE_CROSSCOMPILING_EMULATOR)
    set(VIPL_EMULATED ON)
endif()

# vipl_catch_main(<source>...): Catch2 2.13, its code compiled once, or Catch2 3. The header of the former is looked for on the
# building machine, also when cross compiling: it is only text. It is copied into a folder of its own,
# because /usr/include must not come before a cross compiler's. The latter is a library, of this build's CPU.
function(vipl_catch_main)
    find_path(VIPL_CATCH2_DIR catch2/catch.hpp NO_CMAKE_FIND_ROOT_PATH
              DOC "Folder that holds catch2/catch.hpp (Catch2 2.13)")
    add_library(vipl_catch INTERFACE)
    if(VIPL_CATCH2_DIR)
        set(copy ${PROJECT_BINARY_DIR}/catch2)
        file(COPY ${VIPL_CATCH2_DIR}/catch2/catch.hpp DESTINATION ${copy}/catch2)
        target_include_directories(vipl_catch SYSTEM INTERFACE ${copy})
    else()
        find_package(Catch2 3 QUIET CONFIG)
        if(NOT Catch2_FOUND)
            message(FATAL_ERROR "Neither Catch2 2.13 nor Catch2 3 is here: install catch2, or set VIPL_BUILD_TESTS=OFF")
        endif()
        target_include_directories(vipl_catch SYSTEM INTERFACE ${PROJECT_SOURCE_DIR}/tests/support/catch2/catch3)
        target_link_libraries(vipl_catch INTERFACE Catch2::Catch2)
    endif()
    # An archive: a program that has its own main function does not get this one.
    add_library(vipl_catch_main STATIC EXCLUDE_FROM_ALL ${ARGN})
    vipl_own(vipl_catch_main)
    if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang") # it is not what is tested, and takes minutes with everything on
        target_compile_options(vipl_catch_main PRIVATE -O0 -g0 -fno-sanitize=all)
    endif()
    target_link_libraries(vipl_catch_main PUBLIC vipl_catch)
endfunction()

# vipl_test_support(<source>...): what several test programs share.
function(vipl_test_support)
    add_library(vipl_test_support STATIC EXCLUDE_FROM_ALL ${ARGN})
    vipl_own(vipl_test_support)
    target_include_directories(vipl_test_support PUBLIC ${PROJECT_SOURCE_DIR}/tests)
    target_include_directories(vipl_test_support PRIVATE ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(vipl_test_support PUBLIC vipl_catch Threads::Threads)
    # Catch2's header is a third of the time that a file takes: once, for all programs.
    target_precompile_headers(vipl_test_support PRIVATE <catch2/catch.hpp>)
endfunction()

# vipl_catch_program(<target> [INTERNAL|CARD] <source>...): a test program; INTERNAL ones see src/ and link
# the static library, whose hidden symbols they may call; CARD ones see src/ and link the model of the card and
# the codecs that it uses, alone; the others see what every program sees.
function(vipl_catch_program target)
    cmake_parse_arguments(PARSE_ARGV 1 arg "INTERNAL;CARD" "" "")
    add_executable(${target} ${arg_UNPARSED_ARGUMENTS})
    vipl_own(${target})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    target_link_libraries(${target} PRIVATE vipl_catch_main)
    if(TARGET vipl_test_support)
        target_link_libraries(${target} PRIVATE vipl_test_support)
    endif()
    if(arg_INTERNAL)
        vipl_internal_includes(${target})
        target_link_libraries(${target} PRIVATE vipl_static)
    elseif(arg_CARD)
        target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
        target_link_libraries(${target} PRIVATE vipl_test_card)
    else()
        target_link_libraries(${target} PRIVATE vipl)
    endif()
    if(TARGET vipl_test_support)
        target_precompile_headers(${target} REUSE_FROM vipl_test_support)
    endif()
    vipl_on_demand(${target})
endfunction()

# vipl_on_demand(<target>): a program that only its tests need. With VIPL_TESTS_ON_DEMAND it is no part of the target all, and tools/test_programs.py
# says which of these the chosen tests need.
add_custom_target(vipl-tests)
function(vipl_on_demand target)
    add_dependencies(vipl-tests ${target})
    if(VIPL_TESTS_ON_DEMAND)
        set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
endfunction()

# vipl_test_path(<target> <name> <path>): a variable of the program, `const char *const <name>`. It is in a source of its own: the others are
# compiled alike in every folder, and a compiler's cache has them.
function(vipl_test_path target name path)
    set(source ${CMAKE_CURRENT_BINARY_DIR}/${target}-${name}.cpp)
    file(GENERATE OUTPUT ${source} CONTENT "extern const char *const ${name};\nconst char *const ${name} = \"${path}\";\n")
    target_sources(${target} PRIVATE ${source})
    set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# vipl_test_card(): the model of the card and the codecs, an archive.
function(vipl_test_card)
    add_library(vipl_test_card STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:vipl_rnic_card>
                ${PROJECT_SOURCE_DIR}/src/iwarp/crc32c.c ${PROJECT_SOURCE_DIR}/src/iwarp/rdmap.c)
    vipl_own(vipl_test_card)
    target_include_directories(vipl_test_card PRIVATE ${PROJECT_SOURCE_DIR}/src)
endfunction()

# vipl_left_out(<variable> <file>): what builds for which the variable is set are not given. Adds to VIPL_LEFT_OUT_TESTS, expressions for names
# of tests, and to VIPL_LEFT_OUT_CASES, options of vipl-conformance that name its cases.
set(VIPL_LEFT_OUT_TESTS)
set(VIPL_LEFT_OUT_CASES)
macro(vipl_left_out variable file)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    if(${variable})
        file(STRINGS ${file} lines REGEX "^test(@${VIPL_TARGET})? ")
        foreach(line IN LISTS lines)
            string(REGEX REPLACE "^test[^ ]* +([^ ]+) .*" "\\1" name "${line}")
            string(REPLACE "." "\\." name "${name}")
            string(REPLACE "*" ".*" name "${name}")
            list(APPEND VIPL_LEFT_OUT_TESTS "^${name}$")
        endforeach()
        file(STRINGS ${file} lines REGEX "^cases ")
        if(lines)
            list(APPEND VIPL_LEFT_OUT_CASES --left-out ${file})
        endif()
    endif()
endmacro()

# vipl_is_left_out(<variable> <name>): whether a test is left out.
function(vipl_is_left_out variable name)
    set(${variable} OFF PARENT_SCOPE)
    foreach(expression IN LISTS VIPL_LEFT_OUT_TESTS)
        if(name MATCHES "${expression}")
            set(${variable} ON PARENT_SCOPE)
        endif()
    endforeach()
endfunction()

set(vipl_test_rnicd $<TARGET_FILE:vipl_rnicd>)
if(VIPL_TEST_RNICD)
    set(vipl_test_rnicd ${VIPL_TEST_RNICD})
endif()

# vipl_test(<kind.name> TIMEOUT <seconds> [CONFIGURATION <name>] [PARTS <word>...] [NEEDS <target>...] [ENVIRONMENT <var=value>...] COMMAND <command>...):
# one that has a configuration is there for `ctest -C <name>` only. PARTS: where it is run, if not where its kind is (vipl_parts.cmake). NEEDS: the test
# programs that it starts and that are not words of its command.
function(vipl_test name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT;CONFIGURATION" "PARTS;NEEDS;ENVIRONMENT;COMMAND")
    vipl_is_left_out(left_out ${name})
    if(left_out)
        return()
    endif()
    string(REGEX REPLACE "\\..*" "" kind ${name})
    math(EXPR limit "${arg_TIMEOUT} * ${VIPL_TEST_TIMEOUT_SCALE}") # of the test's own time
    math(EXPR limit_by_the_clock "${limit} * 50")
    math(EXPR scale "${VIPL_TEST_TIMEOUT_SCALE} * ${VIPL_TEST_BUSY}")
    if(NOT scale EQUAL 1)
        list(APPEND arg_ENVIRONMENT VIPL_TEST_TIMEOUT_SCALE=${scale} VIPL_TEST_SLOWNESS=${VIPL_TEST_TIMEOUT_SCALE})
    endif()
    set(cost 0) # the long ones first, so that the last of them does not run alone
    if(kind STREQUAL "posix")
        set(cost 3)
    elseif(kind MATCHES "conformance|network")
        set(cost 2)
    elseif(kind STREQUAL "stress")
        set(cost 1)
    endif()
    if(TARGET vipl_server AND NOT VIPL_EMULATED) # an emulator runs no other program of its CPU's
        list(PREPEND arg_ENVIRONMENT VIPL_SERVER=$<TARGET_FILE:vipl_server>)
    endif()
    if(TARGET vipl_rnicd AND NOT VIPL_EMULATED)
        list(PREPEND arg_ENVIRONMENT VIPL_RNICD=${vipl_test_rnicd})
    endif()
    list(PREPEND arg_ENVIRONMENT VIPL_TEST_NAME=${name})
    vipl_labels(labels ${kind} ${arg_PARTS})
    set(emulator)
    list(GET arg_COMMAND 0 program)
    if(TARGET "${program}") # add_test() does this for the first word of a command. A word may have semicolons in it: no list(POP_FRONT)
        set(emulator ${CMAKE_CROSSCOMPILING_EMULATOR})
        string(LENGTH "${program}" length)
        string(SUBSTRING "${arg_COMMAND}" ${length} -1 arguments)
        set(arg_COMMAND "$<TARGET_FILE:${program}>${arguments}")
    endif()
    add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} -I -S ${PROJECT_SOURCE_DIR}/tests/support/limit.py ${limit} ${emulator} ${arg_COMMAND}
             CONFIGURATIONS ${arg_CONFIGURATION})
    set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${limit_by_the_clock} COST ${cost} SKIP_RETURN_CODE 77
                         ENVIRONMENT "${arg_ENVIRONMENT}")
    list(TRANSFORM arg_NEEDS REPLACE "(.+)" "$<TARGET_FILE:\\1>")
    if(arg_NEEDS)
        set_tests_properties(${name} PROPERTIES REQUIRED_FILES "${arg_NEEDS}")
    endif()
endfunction()

# vipl_tcp_test(<kind.name> [<var=value>...] [PARTS <word>...] COMMAND <command>...): a test of the tcp device. Each has ports of its own, so
# that tests which run at the same time do not disturb each other.
set_property(GLOBAL PROPERTY VIPL_TCP_PORT 10240)
function(vipl_tcp_test name)
    get_property(first GLOBAL PROPERTY VIPL_TCP_PORT)
    if(first EQUAL 18432) # programs have 18514 to 18769 where nothing is set
        set(first 18944)
    elseif(first GREATER 32512)
        message(FATAL_ERROR "${name}: the system gives ports from 32768 on to callers")
    endif()
    math(EXPR last "${first} + 255")
    math(EXPR next "${first} + 256")
    set_property(GLOBAL PROPERTY VIPL_TCP_PORT ${next})
    vipl_test(${name} TIMEOUT 300 ENVIRONMENT VIPL_TEST_DEVICE=tcp:127.0.0.1 VIPL_TCP_PORTS=${first}-${last} ${ARGN})
endfunction()

# vipl_rnic_test(<kind.name> [ADAPTER <option>...] [PARTS <word>...] [ENVIRONMENT <var=value>...] COMMAND <target> <argument>...): a test of
# the device rnic, on an adapter of its own, started with these options.
function(vipl_rnic_test name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "ADAPTER;PARTS;ENVIRONMENT;COMMAND")
    list(POP_FRONT arg_COMMAND program)
    vipl_test(${name} TIMEOUT 300 PARTS ${arg_PARTS} ENVIRONMENT VIPL_TEST_DEVICE=rnic ${arg_ENVIRONMENT}
              COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/support/with_adapter.py ${vipl_test_rnicd}
                      ${arg_ADAPTER} -- $<TARGET_FILE:${program}> ${arg_COMMAND})
endfunction()
