/* SPDX-License-Identifier: MIT */
/* Pages of memory that belong to this process alone. */
#include "os/windows/descriptor.h"

/* The system promises all pages now, and provides each when it is first touched. */
void *vipl_pages_map(size_t bytes, enum vipl_pages when)
{
    (void)when;
    return VirtualAlloc(NULL, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void vipl_pages_unmap(void *pages, size_t bytes)
{
    (void)bytes;
    (void)VirtualFree(pages, 0, MEM_RELEASE);
}

size_t vipl_page_bytes(void)
{
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return info.dwPageSize;
}

static bool is_writable(const MEMORY_BASIC_INFORMATION *part)
{
    const DWORD ways = PAGE_READWRITE | PAGE_WRITECOPY | PAGE_EXECUTE_READWRITE | PAGE_EXECUTE_WRITECOPY;
    return part->State != MEM_COMMIT || (part->Protect & ways) != 0;
}

bool vipl_may_write(const void *address, size_t bytes)
{
    uintptr_t at = (uintptr_t)address;
    uintptr_t end = at + bytes;
    MEMORY_BASIC_INFORMATION part;
    bool may = true;
    while (at < end && may && VirtualQuery((const void *)at, &part, sizeof(part)) != 0) {
        may = is_writable(&part);
        at = (uintptr_t)part.BaseAddress + part.RegionSize;
    }
    return may;
}

/* Windows has working sets, and no limit that a program would meet. */
uint64_t vipl_memory_lock_limit(void)
{
    return UINT64_MAX;
}

uint64_t vipl_memory_total(void)
{
    MEMORYSTATUSEX status = {.dwLength = sizeof(status)};
    return GlobalMemoryStatusEx(&status) ? status.ullTotalPhys : 0;
}
