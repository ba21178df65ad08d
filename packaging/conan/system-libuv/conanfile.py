# SPDX-License-Identifier: MIT
"""The system's libuv as the package libuv/system: where ConanCenter is not reached, a profile replaces libuv by it (README.md)."""
from conan import ConanFile


class SystemLibuv(ConanFile):
    name = 'libuv'
    version = 'system'
    settings = 'os', 'compiler', 'build_type', 'arch'

    def package_info(self):
        self.cpp_info.set_property('cmake_find_mode', 'none')
        self.cpp_info.set_property('pkg_config_name', 'libuv')
        self.cpp_info.includedirs = self.cpp_info.libdirs = self.cpp_info.bindirs = []
        self.cpp_info.system_libs = ['uv']
