/* SPDX-License-Identifier: MIT */
#include "sockets/hello.h"

#include <string.h>

#include "base/little.h"

/* The first byte is no text, and line ends are there so that a change of them is seen. */
static const uint8_t magic[SOCK_MAGIC_BYTES] = {0x89, 'V', 'I', 'P', 'L',  '-',  's',  'o',
                                                'c',  'k', 'e', 't', '\r', '\n', 0x1a, '\n'};

enum {
    KIND = 16,
    VERSION,
    HOST,
    WHY,
    MESSAGES,
    BYTES = 24,
    NONCE = 28,
    ADDRESS = 44,
    DEVICE = 60,
    USER = 92,
    PEER_NONCE = 96,
    REST = 112
};

bool sock_hello_begins(const uint8_t *bytes, size_t count)
{
    return memcmp(bytes, magic, count < sizeof(magic) ? count : sizeof(magic)) == 0;
}

void sock_hello_encode(const struct sock_hello *hello, uint8_t bytes[SOCK_HELLO_BYTES])
{
    memset(bytes, 0, SOCK_HELLO_BYTES);
    memcpy(bytes, magic, sizeof(magic));
    bytes[KIND] = (uint8_t)hello->kind;
    bytes[VERSION] = hello->version;
    bytes[HOST] = hello->host_length;
    bytes[WHY] = hello->why;
    vipl_put_little(bytes + MESSAGES, hello->window.messages, 4);
    vipl_put_little(bytes + BYTES, hello->window.bytes, 4);
    memcpy(bytes + NONCE, hello->nonce, SOCK_NONCE_BYTES);
    memcpy(bytes + ADDRESS, hello->host, SOCK_HOST_BYTES);
    memcpy(bytes + DEVICE, hello->device, SOCK_DEVICE_BYTES);
    vipl_put_little(bytes + USER, hello->user, 4);
    memcpy(bytes + PEER_NONCE, hello->peer_nonce, SOCK_NONCE_BYTES);
}

/* Whether all bytes from `from` on are zeros. */
static bool zeros(const uint8_t *bytes, size_t from, size_t to)
{
    while (from < to && bytes[from] == 0) {
        from++;
    }
    return from >= to;
}

/* Whether the address, the device and the window are possible. */
static bool is_whole(const uint8_t bytes[SOCK_HELLO_BYTES], const struct sock_hello *hello)
{
    size_t device = strnlen(hello->device, SOCK_DEVICE_BYTES);
    return hello->host_length > 0 && hello->host_length <= SOCK_HOST_BYTES &&
           zeros(bytes, ADDRESS + hello->host_length, ADDRESS + SOCK_HOST_BYTES) && device > 0 &&
           device < SOCK_DEVICE_BYTES && zeros(bytes, DEVICE + device, USER) &&
           zeros(bytes, REST, SOCK_HELLO_BYTES) && vipl_stream_window_is_valid(hello->window);
}

bool sock_hello_decode(const uint8_t bytes[SOCK_HELLO_BYTES], struct sock_hello *hello)
{
    struct sock_hello out = {.version = bytes[VERSION], .why = bytes[WHY], .host_length = bytes[HOST]};
    if (!sock_hello_begins(bytes, SOCK_HELLO_BYTES) || bytes[KIND] < SOCK_HELLO ||
        bytes[KIND] > SOCK_DECLINE) {
        return false;
    }
    out.kind = (enum sock_hello_kind)bytes[KIND];
    if (out.version == SOCK_HELLO_VERSION && out.kind != SOCK_DECLINE) {
        out.window.messages = vipl_get_little32(bytes + MESSAGES);
        out.window.bytes = vipl_get_little32(bytes + BYTES);
        memcpy(out.nonce, bytes + NONCE, SOCK_NONCE_BYTES);
        memcpy(out.peer_nonce, bytes + PEER_NONCE, SOCK_NONCE_BYTES);
        memcpy(out.host, bytes + ADDRESS, SOCK_HOST_BYTES);
        memcpy(out.device, bytes + DEVICE, SOCK_DEVICE_BYTES);
        out.user = vipl_get_little32(bytes + USER);
        if (!is_whole(bytes, &out)) {
            return false;
        }
    }
    *hello = out;
    return true;
}
