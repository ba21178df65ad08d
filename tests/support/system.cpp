// SPDX-License-Identifier: MIT
#include "system.hpp"

#include <csignal>
#include <cstdlib>

#include <dlfcn.h>
#include <unistd.h>

#include "check.hpp"

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
