/* SPDX-License-Identifier: MIT */
/*
 * The messages of the handshake on the TCP connection, encoded and decoded without input or output.
 * Each has SOCK_HELLO_BYTES bytes, in every version, and little-endian numbers:
 *
 *      0  magic      16 bytes
 *     16  kind        1   enum sock_hello_kind
 *     17  version     1   SOCK_HELLO_VERSION
 *     18  host        1   bytes of the NIC address, 1 to 16
 *     19  why         1   of DECLINE: enum sock_reason, for the log
 *     20  messages    4   the window: receives that the end posts
 *     24  bytes       4   the window: bytes of each
 *     28  nonce      16   the discriminator of this end's request
 *     44  address    16   the NIC address, zeros behind it
 *     60  device     32   the device's name, zeros behind it, at least one
 *     92  user        4   whose program it is: VIs of loopback connect one user's programs only
 *     96  peer nonce 16   the discriminator that the peer's request is to have
 *    112  zeros      16
 *
 * After them, each end sends one byte: 'V' if its VI is connected, 'T' if it is not. The connection
 * is moved if both have sent 'V', and stays with TCP if not.
 */
#ifndef VIPL_SOCKETS_HELLO_H
#define VIPL_SOCKETS_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream/state.h"

enum {
    SOCK_MAGIC_BYTES = 16,
    SOCK_HELLO_BYTES = 128,
    SOCK_HELLO_VERSION = 2,
    SOCK_NONCE_BYTES = 16,
    SOCK_HOST_BYTES = 16,
    SOCK_DEVICE_BYTES = 32,
    SOCK_COMMIT_VIPL = 'V',
    SOCK_COMMIT_TCP = 'T'
};
enum sock_hello_kind {
    SOCK_HELLO = 1,   /* the client's first bytes */
    SOCK_WELCOME = 2, /* the server's reply: its VI is about to be connected */
    SOCK_DECLINE = 3  /* the server's reply: the connection stays with TCP, and no byte follows */
};
struct sock_hello {
    enum sock_hello_kind kind;
    uint8_t version;
    uint8_t why;
    uint8_t host_length;
    uint8_t host[SOCK_HOST_BYTES];
    uint8_t nonce[SOCK_NONCE_BYTES];
    uint8_t peer_nonce[SOCK_NONCE_BYTES];
    struct vipl_stream_window window;
    char device[SOCK_DEVICE_BYTES];
    uint32_t user;
};

/* Returns true if the bytes are the beginning of a message, as far as they go. */
bool sock_hello_begins(const uint8_t *bytes, size_t count);
void sock_hello_encode(const struct sock_hello *hello, uint8_t bytes[SOCK_HELLO_BYTES]);
/* Returns false if the bytes are no message. A message of another version has a kind, a version and
 * a reason only. */
bool sock_hello_decode(const uint8_t bytes[SOCK_HELLO_BYTES], struct sock_hello *hello);

#endif
