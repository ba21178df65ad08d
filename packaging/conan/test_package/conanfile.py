# SPDX-License-Identifier: MIT
"""A program of another project: linked through pkg-config, and through CMake's package."""
import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.env import VirtualRunEnv
from conan.tools.gnu import PkgConfigDeps


class ViplTest(ConanFile):
    settings = 'os', 'compiler', 'build_type', 'arch'

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        PkgConfigDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables['vipl_DIR'] = os.path.join(self.dependencies['vipl'].package_folder, 'lib', 'cmake', 'vipl')
        toolchain.generate()
        VirtualRunEnv(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()
        path = 'PKG_CONFIG_PATH="%s"' % self.generators_folder
        self.run('%s sh -c \'cc "%s/main.c" $(pkg-config --cflags --libs vipl) -o by-pkg-config\'' % (path, self.source_folder))

    def test(self):
        if can_run(self):
            self.run(os.path.join(self.cpp.build.bindir, 'by-cmake'), env='conanrun')
            self.run(os.path.join(self.build_folder, 'by-pkg-config'), env='conanrun')
