/* SPDX-License-Identifier: MIT */
/* Pages of memory that belong to this process alone. */
#include <sys/mman.h>
#include <unistd.h>

#include "os/os.h"

#ifndef MAP_NORESERVE /* such a system never counts pages before they are touched */
#define MAP_NORESERVE 0
#endif

void *vipl_pages_map(size_t bytes, enum vipl_pages when)
{
    int how = MAP_PRIVATE | MAP_ANONYMOUS | (when == VIPL_PAGES_WHEN_TOUCHED ? MAP_NORESERVE : 0);
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, how, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

void vipl_pages_unmap(void *pages, size_t bytes)
{
    munmap(pages, bytes);
}

size_t vipl_page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}
