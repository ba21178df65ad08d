# SPDX-License-Identifier: MIT
import os
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy


class ViplConan(ConanFile):
    name = 'vipl'
    license = 'MIT'
    description = 'Virtual Interface Provider Library 1.0: user-level messaging and RDMA'
    settings = 'os', 'compiler', 'build_type', 'arch'
    options = {'shared': [True, False], 'fPIC': [True, False], 'with_tcp': [True, False]}
    default_options = {'shared': False, 'fPIC': True, 'with_tcp': True}
    languages = 'C'

    def set_version(self):
        with open(os.path.join(self.recipe_folder, '..', '..', 'include', 'vipl', 'version.h'), encoding='utf-8') as file:
            numbers = dict(re.findall(r'#define VIPL_VERSION_(MAJOR|MINOR|PATCH) (\d+)', file.read()))
        self.version = self.version or '.'.join(numbers[part] for part in ('MAJOR', 'MINOR', 'PATCH'))

    def export_sources(self):
        top = os.path.join(self.recipe_folder, '..', '..')
        for pattern in ('CMakeLists.txt', 'LICENSE', '*.md', 'cmake/*', 'include/*', 'src/*', 'examples/*', 'tools/*', 'docs/*'):
            copy(self, pattern, top, self.export_sources_folder)

    def requirements(self):
        if self.options.with_tcp:
            self.requires('libuv/[>=1.44 <2]')

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ('BUILD_TESTS', 'BUILD_TOOLS', 'BUILD_EXAMPLES', 'BUILD_BENCH', 'BUILD_OMNIORB', 'PROVIDER_LIBFABRIC', 'SOCKETS'):
            toolchain.cache_variables['VIPL_' + part] = False
        toolchain.cache_variables['VIPL_BUILD_SHARED'] = bool(self.options.shared)
        toolchain.cache_variables['VIPL_BUILD_STATIC'] = not self.options.shared
        toolchain.cache_variables['VIPL_BACKEND_TCP'] = bool(self.options.with_tcp)
        if self.options.with_tcp and self.dependencies['libuv'].cpp_info.includedirs:
            libuv = self.dependencies['libuv']
            toolchain.cache_variables['VIPL_LIBUV_INCLUDE'] = libuv.cpp_info.includedirs[0]
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, 'LICENSE', self.source_folder, os.path.join(self.package_folder, 'licenses'))

    def package_info(self):
        # vipl-config.cmake and vipl.pc are the library's own.
        self.cpp_info.set_property('cmake_find_mode', 'none')
        self.cpp_info.set_property('pkg_config_name', 'vipl')
        self.cpp_info.builddirs = [os.path.join('lib', 'cmake', 'vipl')]
        self.cpp_info.libs = ['vipl']
        if self.settings.os == 'Linux':
            self.cpp_info.system_libs = ['pthread']
