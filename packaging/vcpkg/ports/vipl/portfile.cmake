# SPDX-License-Identifier: MIT
# A draft: until there is a release to fetch, VIPL_SOURCE in the environment names a checkout.
set(SOURCE_PATH "$ENV{VIPL_SOURCE}")
if(NOT EXISTS "${SOURCE_PATH}/include/vipl/vipl.h")
    message(FATAL_ERROR "Set VIPL_SOURCE to a checkout of VIPL (and keep it: VCPKG_KEEP_ENV_VARS=VIPL_SOURCE)")
endif()

string(COMPARE EQUAL "${VCPKG_LIBRARY_LINKAGE}" "dynamic" shared)
string(COMPARE EQUAL "${VCPKG_LIBRARY_LINKAGE}" "static" static)
vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS -DVIPL_BUILD_TESTS=OFF -DVIPL_BUILD_TOOLS=OFF -DVIPL_BUILD_EXAMPLES=OFF -DVIPL_BUILD_BENCH=OFF
            -DVIPL_BUILD_OMNIORB=OFF -DVIPL_PROVIDER_LIBFABRIC=OFF -DVIPL_SOCKETS=OFF # a static libuv is not for a shared library
            -DVIPL_BACKEND_TCP=ON -DVIPL_BUILD_SHARED=${shared} -DVIPL_BUILD_STATIC=${static})
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/vipl)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share"
                    "${CURRENT_PACKAGES_DIR}/share/doc")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
