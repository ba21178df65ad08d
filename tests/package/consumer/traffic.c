/* SPDX-License-Identifier: MIT */
/* A program on libvipldm alone: an index of a recording with one packet, and one of a file that is
 * not there. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <vipl/device_memory.h>

int main(void)
{
    /* pcap: version 2.4, Ethernet; a packet of 14 bytes */
    static const unsigned char recording[] = {
        0xd4, 0xc3, 0xb2, 0xa1, 2, 0,  4, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0, 1, 0, 0,
        0,    0,    0,    0,    0, 14, 0, 0, 0, 14, 0, 0, 0, 2, 2, 2, 2,    2,    2, 4, 4, 4, 4, 4, 4, 8, 0};
    struct vipl_dm_reason reason;
    FILE *file = fopen("traffic.pcap", "wb");
    int error = vipl_dm_index_write("file:nowhere.pcap", "traffic.index", &reason);

    if (error != ENOENT || strlen(reason.text) == 0) {
        fprintf(stderr, "no recording: error %d\n", error);
        return 1;
    }
    if (file == NULL || fwrite(recording, sizeof(recording), 1, file) != 1 || fclose(file) != 0) {
        perror("traffic.pcap");
        return 1;
    }
    error = vipl_dm_index_write("file:traffic.pcap", "traffic.index", &reason);
    if (error != 0) {
        fprintf(stderr, "traffic.pcap: %s\n", reason.text);
        return 1;
    }
    puts("libvipldm: ok");
    return 0;
}
