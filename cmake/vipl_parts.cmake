# SPDX-License-Identifier: MIT
# Where a test is run, as labels that ctest selects by. A part is a build whose tests are run: main (gcc, debug), clang, portable, asan, tsan, release,
# s390x, powerpc, aarch64, musl, guest (a virtual machine), pages (a browser). The label <part> is of the gate, .ci/run, and of the full run; the label
# full-<part> is of the full run alone. A test's words, beside it: <part>, full-<part>, no-<part>, each in place of what its kind has here; and
# `long`, which ./dev test leaves to ./dev test --all: it takes long, and is much like another test, or breaks rarely.

# What each kind of test is run in, beside main. Memory errors were found by ASan in unit tests, in the C++ header and by peers that lie; races by
# TSan where threads meet (stress); other CPUs broke in codecs, copies and what is on the wire. The model of the card is run in main and on one
# other CPU. The portable layer is under all that the library does; what does not use the library, or only looks at its files, needs it not.
set(vipl_parts_unit asan tsan s390x portable full-clang full-release full-powerpc full-aarch64 full-musl)
set(vipl_parts_device full-powerpc)
set(vipl_parts_adapter full-asan)
set(vipl_parts_fuzz asan s390x full-powerpc full-aarch64 full-portable)
set(vipl_parts_conformance full-asan full-tsan full-s390x full-powerpc full-aarch64 full-musl full-portable)
set(vipl_parts_posix full-clang full-asan full-tsan full-s390x full-powerpc full-aarch64 full-musl full-portable)
set(vipl_parts_cpp asan full-clang full-tsan full-s390x full-powerpc full-aarch64 full-musl full-portable)
set(vipl_parts_stream asan tsan s390x full-clang full-powerpc full-aarch64 full-musl full-portable)
set(vipl_parts_sockets full-clang full-asan full-tsan full-release full-s390x)
set(vipl_parts_fabric full-asan full-tsan)
set(vipl_parts_fault full-asan full-tsan full-portable long)
set(vipl_parts_stress full-asan full-tsan full-portable long)
set(vipl_parts_emulated full-s390x full-powerpc full-aarch64)
set(vipl_parts_foreign asan full-tsan s390x full-powerpc full-aarch64 full-portable)
set(vipl_parts_interop full-s390x full-powerpc full-aarch64 full-portable)
set(vipl_parts_network long)
set(vipl_parts_vm no-main full-guest)
set(vipl_parts_model long)
# Programs of the system, with one build of the library: its own tests are run under sanitizers and on other CPUs.
set(vipl_parts_apps)
set(vipl_parts_orb full-main long)
# A browser is half a gigabyte: the gate does without.
set(vipl_parts_site no-main full-pages long)
set(vipl_parts_example full-clang full-asan full-musl full-portable)
set(vipl_parts_bench full-musl full-portable)
set(vipl_parts_tools full-asan full-release full-musl full-portable)
set(vipl_parts_counts release)
set(vipl_parts_consumer full-release full-powerpc)
set(vipl_parts_abi full-clang full-release full-s390x full-powerpc full-aarch64)

# vipl_labels(<variable> <kind> <word>...): the labels of a test of that kind with these words.
function(vipl_labels variable kind)
    set(labels ${kind} main)
    foreach(word IN LISTS vipl_parts_${kind} ARGN)
        string(REGEX REPLACE "^(full|no)-" "" part ${word})
        list(REMOVE_ITEM labels ${part} full-${part})
        if(NOT word MATCHES "^no-")
            list(APPEND labels ${word})
        endif()
    endforeach()
    set(${variable} "${labels}" PARENT_SCOPE)
endfunction()
