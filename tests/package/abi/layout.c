/* SPDX-License-Identifier: MIT */
/*
 * The table of every public structure: size, then each member's offset and size. Without an
 * argument it is printed; with a file it is compared, and any difference is an error: the layout is
 * the interface. One file serves all CPUs of a word size.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <vipl/cache.h>
#include <vipl/posix.h>

#define TYPE(type) \
    { \
#type, "", 0, sizeof(type) \
    }
#define MEMBER(type, member) \
    { \
#type, #member, offsetof(type, member), sizeof(((type *)0)->member) \
    }

static const struct row {
    const char *type;
    const char *member;
    size_t offset;
    size_t size;
} table[] = {
    TYPE(VIP_RETURN),
    TYPE(VIP_VI_STATE),
    TYPE(VIP_RESOURCE_CODE),
    TYPE(VIP_ERROR_CODE),
    TYPE(VIP_RELIABILITY_LEVEL),
    TYPE(VIP_BOOLEAN),
    TYPE(VIP_ULONG),
    TYPE(VIP_NIC_HANDLE),
    TYPE(VIP_MEM_HANDLE),
    TYPE(VIP_PVOID64),
    MEMBER(VIP_PVOID64, AddressBits),
    TYPE(VIP_NET_ADDRESS),
    MEMBER(VIP_NET_ADDRESS, HostAddressLen),
    MEMBER(VIP_NET_ADDRESS, DiscriminatorLen),
    MEMBER(VIP_NET_ADDRESS, HostAddress),
    TYPE(VIP_NIC_ATTRIBUTES),
    MEMBER(VIP_NIC_ATTRIBUTES, Name),
    MEMBER(VIP_NIC_ATTRIBUTES, HardwareVersion),
    MEMBER(VIP_NIC_ATTRIBUTES, ProviderVersion),
    MEMBER(VIP_NIC_ATTRIBUTES, NicAddressLen),
    MEMBER(VIP_NIC_ATTRIBUTES, LocalNicAddress),
    MEMBER(VIP_NIC_ATTRIBUTES, ThreadSafe),
    MEMBER(VIP_NIC_ATTRIBUTES, MaxDiscriminatorLen),
    MEMBER(VIP_NIC_ATTRIBUTES, MaxRegisterBytes),
    MEMBER(VIP_NIC_ATTRIBUTES, MaxRegisterRegions),
    MEMBER(VIP_NIC_ATTRIBUTES, MaxRegisterBlockBytes),
    MEMBER(VIP_NIC_ATTRIBUTES, MaxVI),
    MEMBER(VIP_NIC_ATTRIBUTES, MaxDescriptorsPerQueue),
    MEMBER(VIP_NIC_ATTRIBUTES, MaxSegmentsPerDesc),
    MEMBER(VIP_NIC_ATTRIBUTES, MaxCQ),
    MEMBER(VIP_NIC_ATTRIBUTES, MaxCQEntries),
    MEMBER(VIP_NIC_ATTRIBUTES, MaxTransferSize),
    MEMBER(VIP_NIC_ATTRIBUTES, NativeMTU),
    MEMBER(VIP_NIC_ATTRIBUTES, MaxPtags),
    MEMBER(VIP_NIC_ATTRIBUTES, ReliabilityLevelSupport),
    MEMBER(VIP_NIC_ATTRIBUTES, RDMAReadSupport),
    TYPE(VIP_VI_ATTRIBUTES),
    MEMBER(VIP_VI_ATTRIBUTES, ReliabilityLevel),
    MEMBER(VIP_VI_ATTRIBUTES, MaxTransferSize),
    MEMBER(VIP_VI_ATTRIBUTES, QoS),
    MEMBER(VIP_VI_ATTRIBUTES, Ptag),
    MEMBER(VIP_VI_ATTRIBUTES, EnableRdmaWrite),
    MEMBER(VIP_VI_ATTRIBUTES, EnableRdmaRead),
    TYPE(VIP_MEM_ATTRIBUTES),
    MEMBER(VIP_MEM_ATTRIBUTES, Ptag),
    MEMBER(VIP_MEM_ATTRIBUTES, EnableRdmaWrite),
    MEMBER(VIP_MEM_ATTRIBUTES, EnableRdmaRead),
    TYPE(VIP_AUTODISCOVERY_LIST),
    MEMBER(VIP_AUTODISCOVERY_LIST, NumberOfHops),
    MEMBER(VIP_AUTODISCOVERY_LIST, ADAddrArray),
    MEMBER(VIP_AUTODISCOVERY_LIST, NumAdAddrs),
    TYPE(VIP_CONTROL_SEGMENT),
    MEMBER(VIP_CONTROL_SEGMENT, Next),
    MEMBER(VIP_CONTROL_SEGMENT, NextHandle),
    MEMBER(VIP_CONTROL_SEGMENT, SegCount),
    MEMBER(VIP_CONTROL_SEGMENT, Control),
    MEMBER(VIP_CONTROL_SEGMENT, Reserved),
    MEMBER(VIP_CONTROL_SEGMENT, ImmediateData),
    MEMBER(VIP_CONTROL_SEGMENT, Length),
    MEMBER(VIP_CONTROL_SEGMENT, Status),
    TYPE(VIP_ADDRESS_SEGMENT),
    MEMBER(VIP_ADDRESS_SEGMENT, Data),
    MEMBER(VIP_ADDRESS_SEGMENT, Handle),
    MEMBER(VIP_ADDRESS_SEGMENT, Reserved),
    TYPE(VIP_DATA_SEGMENT),
    MEMBER(VIP_DATA_SEGMENT, Data),
    MEMBER(VIP_DATA_SEGMENT, Handle),
    MEMBER(VIP_DATA_SEGMENT, Length),
    TYPE(VIP_DESCRIPTOR_SEGMENT),
    TYPE(VIP_DESCRIPTOR),
    MEMBER(VIP_DESCRIPTOR, CS),
    MEMBER(VIP_DESCRIPTOR, Control),
    MEMBER(VIP_DESCRIPTOR, DS),
    MEMBER(VIP_DESCRIPTOR, Data),
    TYPE(VIP_ERROR_DESCRIPTOR),
    MEMBER(VIP_ERROR_DESCRIPTOR, NicHandle),
    MEMBER(VIP_ERROR_DESCRIPTOR, ViHandle),
    MEMBER(VIP_ERROR_DESCRIPTOR, CQHandle),
    MEMBER(VIP_ERROR_DESCRIPTOR, DescriptorPtr),
    MEMBER(VIP_ERROR_DESCRIPTOR, OpCode),
    MEMBER(VIP_ERROR_DESCRIPTOR, ResourceCode),
    MEMBER(VIP_ERROR_DESCRIPTOR, ErrorCode),
    TYPE(VIPX_FD_KIND),
    TYPE(VIPX_WORK_STATISTICS),
    MEMBER(VIPX_WORK_STATISTICS, Sends),
    MEMBER(VIPX_WORK_STATISTICS, SendBytes),
    MEMBER(VIPX_WORK_STATISTICS, RdmaWrites),
    MEMBER(VIPX_WORK_STATISTICS, RdmaWriteBytes),
    MEMBER(VIPX_WORK_STATISTICS, RdmaReads),
    MEMBER(VIPX_WORK_STATISTICS, RdmaReadBytes),
    MEMBER(VIPX_WORK_STATISTICS, SendsFailed),
    MEMBER(VIPX_WORK_STATISTICS, Receives),
    MEMBER(VIPX_WORK_STATISTICS, ReceiveBytes),
    MEMBER(VIPX_WORK_STATISTICS, ReceivesFailed),
    MEMBER(VIPX_WORK_STATISTICS, Connections),
    MEMBER(VIPX_WORK_STATISTICS, ConnectionsLost),
    MEMBER(VIPX_WORK_STATISTICS, RequestsRefused),
    TYPE(VIPX_REGISTRATION),
    MEMBER(VIPX_REGISTRATION, Handle),
    MEMBER(VIPX_REGISTRATION, Entry),
    TYPE(VIPX_CACHE_STATISTICS),
    MEMBER(VIPX_CACHE_STATISTICS, Hits),
    MEMBER(VIPX_CACHE_STATISTICS, Misses),
    MEMBER(VIPX_CACHE_STATISTICS, NotCachedOff),
    MEMBER(VIPX_CACHE_STATISTICS, NotCachedOnce),
    MEMBER(VIPX_CACHE_STATISTICS, NotCachedKind),
    MEMBER(VIPX_CACHE_STATISTICS, NotCachedWatched),
    MEMBER(VIPX_CACHE_STATISTICS, NotCachedFull),
    MEMBER(VIPX_CACHE_STATISTICS, Evicted),
    MEMBER(VIPX_CACHE_STATISTICS, Invalidated),
    MEMBER(VIPX_CACHE_STATISTICS, InvalidatedInUse),
    MEMBER(VIPX_CACHE_STATISTICS, Events),
    MEMBER(VIPX_CACHE_STATISTICS, Waits),
    MEMBER(VIPX_CACHE_STATISTICS, EndsRefused),
    MEMBER(VIPX_CACHE_STATISTICS, Stale),
    MEMBER(VIPX_CACHE_STATISTICS, Regions),
    MEMBER(VIPX_CACHE_STATISTICS, Bytes),
    TYPE(VIPX_NIC_STATISTICS),
    MEMBER(VIPX_NIC_STATISTICS, Work),
    MEMBER(VIPX_NIC_STATISTICS, RequestsTaken),
    MEMBER(VIPX_NIC_STATISTICS, RequestsRejected),
    MEMBER(VIPX_NIC_STATISTICS, RequestsWaiting),
    MEMBER(VIPX_NIC_STATISTICS, VisCreated),
    MEMBER(VIPX_NIC_STATISTICS, Vis),
    MEMBER(VIPX_NIC_STATISTICS, CompletionQueues),
    MEMBER(VIPX_NIC_STATISTICS, ProtectionTags),
    MEMBER(VIPX_NIC_STATISTICS, Regions),
    MEMBER(VIPX_NIC_STATISTICS, RegisteredBytes),
    /* Its size depends on how a 32-bit CPU aligns 64 bits. */
    MEMBER(VIPX_VI_STATISTICS, Work),
    MEMBER(VIPX_VI_STATISTICS, SendsPosted),
    MEMBER(VIPX_VI_STATISTICS, ReceivesPosted),
    MEMBER(VIPX_VI_STATISTICS, ViHandle),
    TYPE(VIPX_PROPERTY),
    MEMBER(VIPX_PROPERTY, Number),
    MEMBER(VIPX_PROPERTY, Name),
    MEMBER(VIPX_PROPERTY, Text),
    TYPE(VIPX_DEVICE_PROPERTIES),
    MEMBER(VIPX_DEVICE_PROPERTIES, Count),
    MEMBER(VIPX_DEVICE_PROPERTIES, Property),
};

enum { ROWS = sizeof(table) / sizeof(table[0]), LINE = 128 };

static void format(char *line, const struct row *row)
{
    if (row->member[0] == '\0') {
        snprintf(line, LINE, "%s size %u\n", row->type, (unsigned)row->size);
    } else {
        snprintf(line, LINE, "%s.%s at %u size %u\n", row->type, row->member, (unsigned)row->offset,
                 (unsigned)row->size);
    }
}

static int compare(FILE *file)
{
    int different = 0;
    char wanted[LINE];
    char found[LINE];
    for (int i = 0; i < ROWS; i++) {
        format(found, &table[i]);
        if (fgets(wanted, sizeof(wanted), file) == NULL || strcmp(wanted, found) != 0) {
            printf("is:        %s", found);
            different++;
        }
    }
    different += fgets(wanted, sizeof(wanted), file) != NULL;
    printf("%d rows, %d different\n", ROWS, different);
    return different == 0 ? 0 : 1;
}

/* On a big-endian 32-bit CPU, too, the pointer is the low half of the 64 bits. */
static int pointer_is_low_half(void)
{
    static char target;
    VIP_PVOID64 word;
    word.AddressBits = 0;
    word.Address = &target;
    return word.AddressBits == (VIP_UINT64)(size_t)&target;
}

int main(int argc, char **argv)
{
    if (!pointer_is_low_half()) {
        puts("VIP_PVOID64.Address is not the low half of AddressBits");
        return 1;
    }
    if (argc < 2) {
        char line[LINE];
        for (int i = 0; i < ROWS; i++) {
            format(line, &table[i]);
            fputs(line, stdout);
        }
        return 0;
    }
    FILE *file = fopen(argv[1], "r");
    if (file == NULL) {
        perror(argv[1]);
        return 1;
    }
    int rc = compare(file);
    fclose(file);
    return rc;
}
