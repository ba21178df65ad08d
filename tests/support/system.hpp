// SPDX-License-Identifier: MIT
//
// What test programs need of the system beyond the standard library. system.cpp has it by POSIX,
// windows/system.cpp on Windows.
#ifndef VIPL_TESTS_SYSTEM_HPP
#define VIPL_TESTS_SYSTEM_HPP

#include <cstddef>
#include <functional>
#include <string>

namespace vipl_test {

/** Set an environment variable, which may be there already; NULL: remove it. On Windows a variable
 * that is set to nothing is removed, too. */
void set_environment(const char *name, const char *value);

/** Memory whose address is a multiple of the alignment; free_aligned() frees it. */
void *allocate_aligned(size_t alignment, size_t bytes);
void free_aligned(void *memory);

/** Memory of whole pages, and what the program may do with it. A page has 4096 bytes or more. */
enum class PageAccess { none, read, write };
void *map_pages(size_t bytes);
void unmap_pages(void *pages, size_t bytes);
void allow(void *pages, size_t bytes, PageAccess access);

/** Make a file with this text where temporary files are, and return its path. The caller removes
 * it. */
std::string make_file(const std::string &text = "");

/** What is written to the standard error output while `body` runs, 64 KiB at most: a pipe has its
 * place meanwhile. */
std::string standard_error_of(const std::function<void()> &body);

/** What the system calls this host. */
std::string host_name();

/** A function of this program or of its libraries by its plain name; NULL: none is exported by that
 * name. */
void *function_by_name(const char *name);

/** Wait until something else ends this process. */
[[noreturn]] void wait_for_the_end();

/** End this process as another one would that may: at once, with nothing that an exit does. */
[[noreturn]] void kill_this_process();

} // namespace vipl_test

#endif
