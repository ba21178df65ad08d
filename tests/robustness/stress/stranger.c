/* SPDX-License-Identifier: MIT */
/* The program that takes a peer's place by exec (exec.cpp). It has memory of its own where the peer
 * had registered some, says over a socket that it runs, waits for a word, and exits with 0 if
 * nobody has touched that memory. stranger ADDRESS BYTES SOCKET */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "stranger.h"

int main(int argc, char **argv)
{
    if (argc != 4) {
        return 2;
    }
    void *place = (void *)(size_t)strtoull(argv[1], NULL, 16);
    const size_t bytes = (size_t)strtoull(argv[2], NULL, 10);
    const int line = atoi(argv[3]);
    char word = 'R';
    unsigned char *memory =
        mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (memory == MAP_FAILED) {
        return 3;
    }
    memset(memory, STRANGER_BYTE, bytes);
    if (send(line, &word, 1, MSG_NOSIGNAL) != 1 || recv(line, &word, 1, 0) != 1) {
        return 4;
    }
    for (size_t i = 0; i < bytes; i++) {
        if (memory[i] != STRANGER_BYTE) {
            fprintf(stderr, "byte %zu of another program is 0x%02x\n", i, memory[i]);
            return 1;
        }
    }
    return 0;
}
