# SPDX-License-Identifier: MIT
# cmake -DKIND=<kind> -DSOURCE=<checkout> -DPREFIX=<installed tree> -DWORK=<scratch folder>
#       -DCC=<compiler> [-DTOOLCHAIN=<file> -DTARGET=<name>] [-DLINK=<flags>] [-DEMULATOR=<command>] [-DLIBDIR=<folder>] [-DLIBUV_DIR=<folder>]
#       [-DSERVER=<installed program>]
#       -P run.cmake
# Kinds: installed, add_subdirectory, slim, FetchContent, pkg_config, pkg_config_static, meson, application.
cmake_minimum_required(VERSION 3.20)

function(run)
    execute_process(COMMAND ${ARGN} RESULT_VARIABLE result)
    if(NOT result EQUAL 0)
        message(FATAL_ERROR "${KIND}: failed: ${ARGN}")
    endif()
endfunction()

# The system's own programs and libraries must not be found instead of those under test.
set(ENV{PKG_CONFIG_LIBDIR} ${PREFIX}/${LIBDIR}/pkgconfig)
set(ENV{LD_LIBRARY_PATH} ${PREFIX}/${LIBDIR})
if(LIBUV_DIR AND TOOLCHAIN)
    set(ENV{LD_LIBRARY_PATH} ${PREFIX}/${LIBDIR}:${LIBUV_DIR})
    set(ENV{LDFLAGS} "${LINK} -L${LIBUV_DIR} -Wl,-rpath-link,${LIBUV_DIR}")
endif()
set(here ${SOURCE}/tests/package/consumer)
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})

set(compiler -DCMAKE_C_COMPILER=${CC})
if(TOOLCHAIN)
    set(compiler -DCMAKE_TOOLCHAIN_FILE=${TOOLCHAIN} -DVIPL_TARGET=${TARGET} -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=BOTH)
endif()
set(configure ${CMAKE_COMMAND} -B ${WORK} ${compiler} -DCMAKE_C_FLAGS=-Werror)

if(KIND STREQUAL "installed")
    if(SERVER) # without arguments it says what it is
        execute_process(COMMAND ${EMULATOR} ${SERVER} RESULT_VARIABLE result ERROR_QUIET)
        if(NOT result EQUAL 2)
            message(FATAL_ERROR "${SERVER}: ${result}")
        endif()
    endif()
    run(${configure} -S ${here}/installed -Dvipl_DIR=${PREFIX}/${LIBDIR}/cmake/vipl)
elseif(KIND MATCHES "add_subdirectory|FetchContent")
    set(lto "")
    if(KIND STREQUAL "FetchContent") # add_subdirectory has the library as it is by default, which takes the linker long
        set(lto -DVIPL_LTO=OFF)
    endif()
    run(${configure} -S ${here}/embedded -DVIPL_SOURCE=${SOURCE} -DEMBED_WITH=${KIND} ${lto})
elseif(KIND STREQUAL "application") # runs from where it is installed, with nothing of what it was built from
    run(${configure} -S ${here}/application -DVIPL_SOURCE=${SOURCE} -DVIPL_LTO=OFF -DCMAKE_INSTALL_PREFIX=${WORK}/installed -DCMAKE_INSTALL_LIBDIR=lib)
    run(${CMAKE_COMMAND} --build ${WORK})
    run(${CMAKE_COMMAND} --install ${WORK})
    file(RENAME ${WORK}/installed ${WORK}-installed)
    file(REMOVE_RECURSE ${WORK})
    set(ENV{LD_LIBRARY_PATH} ${LIBUV_DIR})
    run(${EMULATOR} ${WORK}-installed/bin/application)
    run(${EMULATOR} ${WORK}-installed/bin/sharing)
    file(REMOVE_RECURSE ${WORK}-installed)
    return()
elseif(KIND STREQUAL "slim")
    run(${configure} -S ${here}/embedded -DVIPL_SOURCE=${SOURCE} -DVIPL_SHARING=OFF -DVIPL_BACKEND_TCP=OFF -DVIPL_BACKEND_RNIC_MODEL=OFF
        -DCMAKE_BUILD_TYPE=Debug) # at no optimisation, what is left out must not be asked for
elseif(KIND MATCHES "^pkg_config")
    set(static "")
    if(KIND STREQUAL "pkg_config_static")
        set(static STATIC=--static)
    endif()
    run(make -C ${WORK} -f ${here}/make/Makefile SOURCE=${here} CC=${CC} ${static})
    run(${EMULATOR} ${WORK}/main)
    run(${EMULATOR} ${WORK}/old)
    return()
elseif(KIND STREQUAL "meson")
    file(COPY ${here}/meson/meson.build ${here}/main.c DESTINATION ${WORK}/source)
    set(ENV{CC} ${CC})
    run(meson setup ${WORK}/build ${WORK}/source)
    run(meson test -C ${WORK}/build)
    return()
else()
    message(FATAL_ERROR "unknown kind: ${KIND}")
endif()
run(${CMAKE_COMMAND} --build ${WORK})
run(${CMAKE_CTEST_COMMAND} --test-dir ${WORK} --output-on-failure --no-tests=error)
