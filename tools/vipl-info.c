/* SPDX-License-Identifier: MIT */
/*
 * vipl-info: the devices this library can open here, with their attributes and limits.
 *
 * Opens each device that VipxListDevices() tells of, as a table or as one JSON object. Exits with 1
 * when none of them opens.
 */
#include <stdlib.h>
#include <string.h>

#include <vipl/posix.h>

#include "info.h"
#include "tool_reason.h"
#include "tool_text.h"
#include "tool_vipl.h"

/* Raised when a member of the JSON object changes its name or meaning. */
#define SCHEMA 1

struct device {
    const char *asked; /* the name given to VipOpenNic() */
    const char *text;  /* what the list says it is, or "" */
    bool is_default;
    bool is_alias;
    VIP_RETURN opened;
    VIP_NIC_ATTRIBUTES attributes;
    VIPX_DEVICE_PROPERTIES properties; /* what the device has beyond them */
    char address[3 * TOOL_HOST_BYTES];
};

static struct device devices[INFO_MAX_DEVICES];
static size_t device_count;
static VIPX_DEVICE listed[INFO_MAX_DEVICES];

/* One limit: its name for people, its name in JSON (unit included), where it is. */
struct limit {
    const char *label;
    const char *key;
    size_t offset;
};

#define LIMIT(label, key, member) \
    { \
        label, key, offsetof(VIP_NIC_ATTRIBUTES, member) \
    }

static const struct limit limits[] = {
    LIMIT("bytes of one transfer", "max_transfer_bytes", MaxTransferSize),
    LIMIT("bytes of one native packet", "native_mtu_bytes", NativeMTU),
    LIMIT("segments of one descriptor", "max_segments_per_descriptor", MaxSegmentsPerDesc),
    LIMIT("descriptors of one queue", "max_descriptors_per_queue", MaxDescriptorsPerQueue),
    LIMIT("VIs", "max_vis", MaxVI),
    LIMIT("completion queues", "max_completion_queues", MaxCQ),
    LIMIT("entries of one completion queue", "max_completion_queue_entries", MaxCQEntries),
    LIMIT("protection tags", "max_protection_tags", MaxPtags),
    LIMIT("registered regions", "max_registered_regions", MaxRegisterRegions),
    LIMIT("bytes of one region", "max_region_bytes", MaxRegisterBlockBytes),
    LIMIT("registered bytes in all", "max_registered_bytes", MaxRegisterBytes),
};

static VIP_ULONG limit_value(const VIP_NIC_ATTRIBUTES *attributes, const struct limit *limit)
{
    VIP_ULONG value;

    memcpy(&value, (const char *)attributes + limit->offset, sizeof(value));
    return value;
}

static void write_address(struct device *device)
{
    const VIP_NIC_ATTRIBUTES *attributes = &device->attributes;

    for (size_t i = 0; i < attributes->NicAddressLen && i < TOOL_HOST_BYTES; i++) {
        snprintf(device->address + 3 * i, 4, "%02x%s", attributes->LocalNicAddress[i],
                 i + 1 < attributes->NicAddressLen ? ":" : "");
    }
}

/* "127.0.0.1", and the bytes that the program gives. */
static void print_address(const struct device *device)
{
    char text[3 * TOOL_HOST_BYTES];

    tool_host_text(device->attributes.LocalNicAddress, device->attributes.NicAddressLen, text);
    printf("  %-32s %s", "address", text);
    printf(strcmp(text, device->address) == 0 ? "\n" : " (%s)\n", device->address);
}

static void query(struct device *device)
{
    VIP_NIC_HANDLE nic = NULL;
    char what[INFO_NAME_BYTES + 16];

    device->opened = VipOpenNic(device->asked, &nic);
    if (device->opened != VIP_SUCCESS) {
        snprintf(what, sizeof(what), "opening \"%s\"", device->asked);
        tool_complain_rc(what, device->opened);
        return;
    }
    device->opened = VipQueryNic(nic, &device->attributes);
    if (device->opened == VIP_SUCCESS) {
        write_address(device);
        device->opened = VipQuerySystemManagementInfo(nic, VIPX_SMI_DEVICE_PROPERTIES, &device->properties);
    }
    VipCloseNic(nic);
}

static bool has_level(VIP_RELIABILITY_LEVEL set, unsigned level)
{
    return (set & level) != 0;
}

static void print_levels(const char *label, VIP_RELIABILITY_LEVEL set)
{
    printf("  %-32s", label);
    for (unsigned level = VIP_SERVICE_UNRELIABLE; level <= VIP_SERVICE_RELIABLE_RECEPTION; level *= 2) {
        if (has_level(set, level)) {
            printf(" %s", tool_level_text((VIP_RELIABILITY_LEVEL)level));
        }
    }
    puts("");
}

static void print_version_number(VIP_ULONG version)
{
    printf("%lu.%lu.%lu", version >> 16, (version >> 8) & 0xff, version & 0xff);
}

/* Their names are words for a script; people get them with spaces. */
static void print_properties(const VIPX_DEVICE_PROPERTIES *properties)
{
    if (properties->Count > 0) {
        puts("  the device itself");
    }
    for (size_t i = 0; i < properties->Count; i++) {
        const VIPX_PROPERTY *property = &properties->Property[i];
        char label[sizeof(property->Name)];

        memcpy(label, property->Name, sizeof(label));
        for (char *c = label; *c != '\0'; c++) {
            if (*c == '_') {
                *c = ' ';
            }
        }
        printf("    %-30s ", label);
        if (property->Text[0] != '\0') {
            puts(property->Text);
        } else {
            printf("%llu\n", (unsigned long long)property->Number);
        }
    }
}

/* The largest that an address has is no limit that anybody reaches. */
static void print_limit(const char *label, VIP_ULONG value)
{
    uint64_t bytes = value;

    if (bytes >= UINTPTR_MAX / 2) {
        printf("  %-32s unlimited\n", label);
    } else {
        printf("  %-32s %lu\n", label, value);
    }
}

/* The library's "devices=loopback,tcp sharing=on ...", a line each. */
static void print_build(void)
{
    const char *words = VipxBuildOptions();

    printf("library %s\n", VipxVersion());
    while (*words != '\0') {
        size_t length = strcspn(words, " ");
        size_t name = strcspn(words, "=");

        printf("  %-32.*s %.*s\n", (int)name, words, (int)(length - name - 1), words + name + 1);
        words += length + (words[length] == ' ');
    }
}

static void print_device(const struct device *device)
{
    const VIP_NIC_ATTRIBUTES *attributes = &device->attributes;

    printf("%s%s%s%s\n", device->asked, device->is_default ? " (the default device)" : "",
           device->text[0] != '\0' ? ": " : "", device->text);
    if (device->opened != VIP_SUCCESS) {
        printf("  does not open: %s: %s\n", VipxStrError(device->opened), VipxExplainError(device->opened));
        return;
    }
    if (device->is_alias) {
        return; /* it is what it stands for */
    }
    printf("  %-32s %.64s\n", "device", attributes->Name);
    print_address(device);
    printf("  %-32s ", "provider version");
    print_version_number(attributes->ProviderVersion);
    printf("\n  %-32s %lu\n", "hardware version", attributes->HardwareVersion);
    printf("  %-32s %s\n", "safe for threads", attributes->ThreadSafe ? "yes" : "no");
    print_levels("reliability levels", attributes->ReliabilityLevelSupport);
    print_levels("RDMA Read at levels", attributes->RDMAReadSupport);
    printf("  %-32s %u\n", "bytes of a discriminator", attributes->MaxDiscriminatorLen);
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        print_limit(limits[i].label, limit_value(attributes, &limits[i]));
    }
    print_properties(&device->properties);
}

static void json_levels(const char *key, VIP_RELIABILITY_LEVEL set)
{
    const char *separator = "";

    printf(", \"%s\": [", key);
    for (unsigned level = VIP_SERVICE_UNRELIABLE; level <= VIP_SERVICE_RELIABLE_RECEPTION; level *= 2) {
        if (has_level(set, level)) {
            printf("%s\"%s\"", separator, tool_level_text((VIP_RELIABILITY_LEVEL)level));
            separator = ", ";
        }
    }
    printf("]");
}

static void json_properties(const VIPX_DEVICE_PROPERTIES *properties)
{
    printf(", \"properties\": {");
    for (size_t i = 0; i < properties->Count; i++) {
        const VIPX_PROPERTY *property = &properties->Property[i];

        printf("%s", i > 0 ? ", " : "");
        tool_json_string(stdout, property->Name);
        printf(": ");
        if (property->Text[0] != '\0') {
            tool_json_string(stdout, property->Text);
        } else {
            printf("%llu", (unsigned long long)property->Number);
        }
    }
    printf("}");
}

static void json_attributes(const struct device *device)
{
    const VIP_NIC_ATTRIBUTES *attributes = &device->attributes;
    char name[sizeof(attributes->Name) + 1] = {0};

    memcpy(name, attributes->Name, sizeof(attributes->Name));
    printf(", \"name\": ");
    tool_json_string(stdout, name);
    printf(", \"address\": \"%s\", \"provider_version\": \"", device->address);
    print_version_number(attributes->ProviderVersion);
    printf("\", \"hardware_version\": %lu", attributes->HardwareVersion);
    printf(", \"thread_safe\": %s", attributes->ThreadSafe ? "true" : "false");
    json_levels("reliability_levels", attributes->ReliabilityLevelSupport);
    json_levels("rdma_read_levels", attributes->RDMAReadSupport);
    printf(", \"address_bytes\": %u", attributes->NicAddressLen);
    printf(", \"max_discriminator_bytes\": %u", attributes->MaxDiscriminatorLen);
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        printf(", \"%s\": %lu", limits[i].key, limit_value(attributes, &limits[i]));
    }
    json_properties(&device->properties);
}

static void json_device(const struct device *device, bool last)
{
    printf("    {\"device\": ");
    tool_json_string(stdout, device->asked);
    printf(", \"text\": ");
    tool_json_string(stdout, device->text);
    printf(", \"is_default\": %s", device->is_default ? "true" : "false");
    printf(", \"is_alias\": %s", device->is_alias ? "true" : "false");
    printf(", \"opens\": %s", device->opened == VIP_SUCCESS ? "true" : "false");
    if (device->opened == VIP_SUCCESS) {
        json_attributes(device);
    } else {
        printf(", \"error\": \"%s\"", VipxStrError(device->opened));
    }
    printf("}%s\n", last ? "" : ",");
}

static void print_json(void)
{
    printf("{\n  \"schema\": %d,\n  \"tool\": \"%s\",\n  \"version\": \"%s\",\n  \"build\": \"%s\",\n  "
           "\"devices\": [\n",
           SCHEMA, tool_name, VipxVersion(), VipxBuildOptions());
    for (size_t i = 0; i < device_count; i++) {
        json_device(&devices[i], i + 1 == device_count);
    }
    printf("  ]\n}\n");
}

/* What the library tells of, or the devices that the user names. False: it cannot be told. */
static bool choose_devices(const struct info_options *options)
{
    VIP_ULONG count = INFO_MAX_DEVICES;
    VIP_RETURN rc = VipxListDevices(listed, &count);

    if (rc != VIP_SUCCESS) {
        tool_complain_rc("VipxListDevices", rc);
        return false;
    }
    count = count < INFO_MAX_DEVICES ? count : INFO_MAX_DEVICES;
    device_count = options->device_count > 0 ? options->device_count : count;
    for (size_t i = 0; i < device_count; i++) {
        devices[i].asked = options->device_count > 0 ? options->devices[i] : listed[i].Name;
        devices[i].text = "";
        for (VIP_ULONG j = 0; j < count; j++) {
            if (strcmp(listed[j].Name, devices[i].asked) == 0) {
                devices[i].text = listed[j].Text;
                devices[i].is_default = (listed[j].Flags & VIPX_DEVICE_IS_DEFAULT) != 0;
                devices[i].is_alias = (listed[j].Flags & VIPX_DEVICE_IS_ALIAS) != 0;
            }
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    static struct info_options options;
    bool any = false;
    int code;

    tool_name = "vipl-info";
    code = info_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    tool_reasons_begin();
    if (!choose_devices(&options)) {
        return TOOL_FAILED;
    }
    for (size_t i = 0; i < device_count; i++) {
        query(&devices[i]);
        any = any || devices[i].opened == VIP_SUCCESS;
    }
    if (options.json) {
        print_json();
    } else {
        print_build();
    }
    for (size_t i = 0; i < device_count && !options.json; i++) {
        print_device(&devices[i]);
    }
    return any && fflush(stdout) == 0 ? TOOL_OK : TOOL_FAILED;
}
