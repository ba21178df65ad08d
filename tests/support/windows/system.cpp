// SPDX-License-Identifier: MIT
#include "support/system.hpp"

#include <cstdio>
#include <cstdlib>

#include <fcntl.h>
#include <io.h>

#include "support/windows/ended.hpp"

#include "support/check.hpp"

namespace vipl_test {

namespace {

/** Another descriptor of the C library in the place of the standard error output; the system's
 * handle of that output changes with it. */
class InPlaceOfStderr {
public:
    explicit InPlaceOfStderr(int fd) : before_(_dup(2))
    {
        std::fflush(stderr);
        _dup2(fd, 2);
    }
    ~InPlaceOfStderr()
    {
        std::fflush(stderr);
        _dup2(before_, 2);
        _close(before_);
    }
    InPlaceOfStderr(const InPlaceOfStderr &) = delete;
    InPlaceOfStderr &operator=(const InPlaceOfStderr &) = delete;

private:
    int before_;
};

} // namespace

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

void *map_pages(size_t bytes)
{
    void *pages = VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    if (pages == nullptr) {
        throw Failure("VirtualAlloc() fails");
    }
    return pages;
}

void unmap_pages(void *pages, size_t)
{
    VirtualFree(pages, 0, MEM_RELEASE);
}

void allow(void *pages, size_t bytes, PageAccess access)
{
    const DWORD bits = access == PageAccess::none   ? PAGE_NOACCESS
                       : access == PageAccess::read ? PAGE_READONLY
                                                    : PAGE_READWRITE;
    DWORD before;
    if (!VirtualProtect(pages, bytes, bits, &before)) {
        throw Failure("VirtualProtect() fails");
    }
}

std::string make_file(const std::string &text)
{
    char folder[MAX_PATH], path[MAX_PATH];
    const bool named =
        GetTempPathA(sizeof folder, folder) != 0 && GetTempFileNameA(folder, "vip", 0, path) != 0;
    std::FILE *const file = named ? std::fopen(path, "wb") : nullptr;
    const bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if (file == nullptr || std::fclose(file) != 0 || !written) {
        throw Failure("a temporary file cannot be written");
    }
    return path;
}

std::string standard_error_of(const std::function<void()> &body)
{
    int ends[2];
    if (_pipe(ends, 65536, _O_BINARY | _O_NOINHERIT) != 0) {
        throw Failure("_pipe() fails");
    }
    {
        const InPlaceOfStderr writing(ends[1]);
        _close(ends[1]);
        body();
    }
    std::string text;
    char bytes[4096];
    for (int n; (n = _read(ends[0], bytes, sizeof bytes)) > 0;) {
        text.append(bytes, static_cast<size_t>(n));
    }
    _close(ends[0]);
    return text;
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
