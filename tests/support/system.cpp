// SPDX-License-Identifier: MIT
#include "system.hpp"

#include <csignal>
#include <cstdlib>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.hpp"
#include "in_place_of_stderr.hpp"

namespace vipl_test {

void set_environment(const char *name, const char *value)
{
    if (value == nullptr) {
        unsetenv(name);
    } else {
        setenv(name, value, 1);
    }
}

void *allocate_aligned(size_t alignment, size_t bytes)
{
    return std::aligned_alloc(alignment, bytes);
}

void free_aligned(void *memory)
{
    std::free(memory);
}

void *map_pages(size_t bytes)
{
    void *pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
        throw Failure("mmap() fails");
    }
    return pages;
}

void unmap_pages(void *pages, size_t bytes)
{
    munmap(pages, bytes);
}

void allow(void *pages, size_t bytes, PageAccess access)
{
    const int bits = access == PageAccess::none   ? PROT_NONE
                     : access == PageAccess::read ? PROT_READ
                                                  : PROT_READ | PROT_WRITE;
    if (mprotect(pages, bytes, bits) != 0) {
        throw Failure("mprotect() fails");
    }
}

std::string make_file(const std::string &text)
{
    std::string path = "/tmp/vipl-test-XXXXXX";
    const int fd = mkstemp(&path[0]);
    const bool good = fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    close(fd);
    if (!good) {
        throw Failure("a file in /tmp cannot be written");
    }
    return path;
}

std::string standard_error_of(const std::function<void()> &body)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        throw Failure("pipe2() fails");
    }
    {
        const InPlaceOfStderr writing(ends[1]);
        close(ends[1]);
        body();
    }
    std::string text;
    char bytes[4096];
    for (ssize_t n; (n = read(ends[0], bytes, sizeof bytes)) > 0;) {
        text.append(bytes, static_cast<size_t>(n));
    }
    close(ends[0]);
    return text;
}

std::string host_name()
{
    char name[300] = "";
    if (gethostname(name, sizeof name - 1) != 0) {
        throw Failure("gethostname() fails");
    }
    return name;
}

void *function_by_name(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

void wait_for_the_end()
{
    for (;;) {
        pause();
    }
}

void kill_this_process()
{
    kill(getpid(), SIGKILL);
    wait_for_the_end();
}

} // namespace vipl_test
