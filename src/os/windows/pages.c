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
