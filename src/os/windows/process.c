/* SPDX-License-Identifier: MIT */
/* Clock, process identity, entropy and environment. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "os/os_atomic.h"
#include "os/windows/descriptor.h"

uint64_t vipl_now_ns(void)
{
    const uint64_t second = 1000000000;
    LARGE_INTEGER frequency;
    LARGE_INTEGER count;
    QueryPerformanceFrequency(&frequency);
    QueryPerformanceCounter(&count);
    uint64_t n = (uint64_t)count.QuadPart;
    uint64_t each = (uint64_t)frequency.QuadPart;
    return n / each * second + n % each * second / each;
}

int vipl_pid(void)
{
    return (int)GetCurrentProcessId();
}

unsigned vipl_cpu_count(void)
{
    DWORD count = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    return count < 1 ? 1 : count;
}

BOOLEAN NTAPI SystemFunction036(PVOID bytes, ULONG length); /* RtlGenRandom(), which no header declares */

int vipl_entropy(void *bytes, size_t length)
{
    return SystemFunction036(bytes, (ULONG)length) ? 0 : EIO;
}

static int name_of_host(COMPUTER_NAME_FORMAT format, char *name, size_t size)
{
    DWORD length = (DWORD)size;
    return GetComputerNameExA(format, name, &length) ? 0 : vipl_errno_of(GetLastError());
}

int vipl_host_name(char *name, size_t size)
{
    return name_of_host(ComputerNameDnsHostname, name, size);
}

int vipl_host_full_name(char *name, size_t size)
{
    return name_of_host(ComputerNameDnsFullyQualified, name, size) == 0 ? 0 : ENOENT;
}

const char *vipl_environment(const char *name)
{
    return getenv(name);
}

const char *vipl_environment_at(unsigned i)
{
    return _environ == NULL ? NULL : _environ[i];
}

bool vipl_has_more_rights(void)
{
    return false; /* a program has the rights of the token that it was started with */
}
