// SPDX-License-Identifier: MIT
#include "support/system.hpp"

#include <cstdlib>

#include "support/windows/ended.hpp"

#include "support/check.hpp"

namespace vipl_test {

void set_environment(const char *name, const char *value)
{
    _putenv_s(name, value == nullptr ? "" : value); // which removes it
}

void *allocate_aligned(size_t alignment, size_t bytes)
{
    return _aligned_malloc(bytes, alignment);
}

void free_aligned(void *memory)
{
    _aligned_free(memory);
}

std::string host_name()
{
    char name[300] = "";
    DWORD size = sizeof name;
    if (!GetComputerNameExA(ComputerNameDnsHostname, name, &size)) {
        throw Failure("GetComputerNameEx() fails");
    }
    return name;
}

void *function_by_name(const char *name)
{
    for (const char *module :
         {"vipl.dll", static_cast<const char *>(nullptr)}) { // the latter is the program itself
        const HMODULE handle = GetModuleHandleA(module);
        FARPROC found = handle == nullptr ? nullptr : GetProcAddress(handle, name);
        if (found != nullptr) {
            return reinterpret_cast<void *>(found);
        }
    }
    return nullptr;
}

void wait_for_the_end()
{
    for (;;) {
        Sleep(INFINITE);
    }
}

void kill_this_process()
{
    TerminateProcess(GetCurrentProcess(), kCodeOfKilled);
    wait_for_the_end();
}

} // namespace vipl_test
