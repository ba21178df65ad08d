#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the inputs the fuzzers start from, corpus/<target>/<what it is>. Shares no code with the library.

    make_corpus.py            writes them
    make_corpus.py --check    says which are not as they would be written, and fails
"""
import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return struct.pack('<I', crc ^ 0xffffffff)


# --- MPA start frames ------------------------------------------------------------------------------

def start(key, flags, revision, private=b'', claimed=None):
    return key + struct.pack('>BBH', flags, revision, len(private) if claimed is None else claimed) + private


REQUEST, REPLY = b'MPA ID Req Frame', b'MPA ID Rep Frame'
MPA_START = {
    'request-1': start(REQUEST, 0x40, 1, b'hello'),
    'request-1-markers': start(REQUEST, 0xc0, 1),
    'request-2-enhanced': start(REQUEST, 0x50, 2, struct.pack('>HH', 0x8004, 0x4008) + b'hello'),
    'request-2-plain': start(REQUEST, 0x40, 2),
    'reply-1': start(REPLY, 0x40, 1),
    'reply-1-rejects': start(REPLY, 0x60, 1, b'no'),
    'reply-2-enhanced': start(REPLY, 0x50, 2, struct.pack('>HH', 0xc001, 0xc001)),
    'with-an-fpdu-behind': start(REQUEST, 0x40, 1) + b'\0\2\1\2' + crc32c(b'\0\2\1\2'),
    'key-wrong': start(b'MPA ID Rex Frame', 0, 1),
    'key-cut': REQUEST[:9],
    'revision-0': start(REQUEST, 0, 0),
    'revision-255': start(REQUEST, 0xff, 255),
    'private-512': start(REQUEST, 0, 1, bytes(512)),
    'private-too-long': start(REQUEST, 0, 1, claimed=513),
    'enhanced-too-short': start(REQUEST, 0x10, 2, b'abc'),
    'empty': b'',
}

# --- FPDUs: position / 4, markers or not, stream ----------------------------------------------------


def fpdu(ulpdu):
    data = struct.pack('>H', len(ulpdu)) + ulpdu
    data += bytes(-len(data) % 4)
    return data + crc32c(data)


def mark(data, position):
    out, header = b'', 4 if position == 0 else 0
    for byte in data[:-4]:
        if (position + len(out)) % 512 == 0:
            out += struct.pack('>HH', 0, max(len(out) - header, 0))
        out += bytes([byte])
    if (position + len(out)) % 512 == 0:
        out += struct.pack('>HH', 0, len(out) - header)
    return out + crc32c(out)


def stream(position, ulpdus, marked):
    data, at = b'', position
    for ulpdu in ulpdus:
        data += mark(fpdu(ulpdu), at) if marked else fpdu(ulpdu)
        at = (position + len(data)) % 512
    return bytes([position // 4, 1 if marked else 0]) + data


def spoiled(data, at):
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1:]


SMALL = [b'', b'a', b'ab', b'abc', b'abcd', bytes(range(18))]
LARGE = bytes(i % 251 for i in range(1400))
FPDU = {
    'plain': stream(0, SMALL, False),
    'plain-large': stream(0, [LARGE, b'x'], False),
    'plain-cut': stream(0, [LARGE], False)[:700],
    'plain-bad-crc': spoiled(stream(0, [b'abcdef'], False), 5),
    'plain-longest-claim': b'\0\0\xff\xff' + bytes(40),
    'marked': stream(0, SMALL, True),
    'marked-late': stream(500, SMALL, True),
    'marked-before-crc': stream(504, [b'abc', b'd'], True),
    'marked-large': stream(0, [LARGE, b'x'], True),
    'marked-large-late': stream(248, [LARGE, LARGE[:600]], True),
    'marked-cut': stream(0, [LARGE], True)[:600],
    'marked-bad-pointer': spoiled(stream(0, [LARGE], True), 2 + 512 + 3),
    'marked-bad-first': spoiled(stream(0, [b'abc'], True), 2 + 3),
    'marked-reserved-bits': spoiled(stream(0, [b'abc'], True), 2),
    'marked-bad-crc': spoiled(stream(4, [b'abcdef'], True), 6),
    'marked-larger-than-room': b'\0\1' + bytes(4) + b'\xff\xff' + bytes(40),
    'empty': b'',
}

# --- DDP and RDMAP ---------------------------------------------------------------------------------


def tagged(op, payload=b'', last=True, version=0x01, rdmap=0x40):
    return struct.pack('>BBIQ', 0x80 | (0x40 if last else 0) | version, rdmap | op, 0x01020304, 0x1000) + payload


def untagged(op, queue, payload=b'', last=True, stag=0, version=0x01, rdmap=0x40):
    return struct.pack('>BBIIII', (0x40 if last else 0) | version, rdmap | op, stag, queue, 1, 0) + payload


READ = struct.pack('>IQIIQ', 1, 0x1000, 4096, 2, 0x2000)


def terminate(reason, headers=0, rest=b''):
    return untagged(7, 2, struct.pack('>HBB', reason, headers, 0) + rest)


RDMAP = {
    'write': tagged(0, b'data'),
    'write-more-to-come': tagged(0, b'data', last=False),
    'read-request': untagged(1, 1, READ),
    'read-request-cut': untagged(1, 1, READ[:-1]),
    'read-response': tagged(2, b'data'),
    'send': untagged(3, 0, b'data'),
    'send-invalidate': untagged(4, 0, b'data', stag=9),
    'send-se': untagged(5, 0, b'data'),
    'send-se-invalidate': untagged(6, 0, b'data', stag=9),
    'immediate': untagged(8, 0, bytes(7) + b'\x2a'),
    'immediate-se': untagged(9, 0, bytes(range(8))),
    'immediate-cut': untagged(8, 0, bytes(7)),
    'terminate-crc': terminate(0x2002),
    'terminate-no-buffer': terminate(0x1202, 0xc0, b'\0\x12' + untagged(3, 0)),
    'terminate-tagged': terminate(0x1101, 0xc0, b'\0\x0e' + tagged(0)),
    'terminate-read': terminate(0x0102, 0xe0, b'\0\x2e' + untagged(1, 1) + READ),
    'terminate-read-alone': terminate(0x0102, 0x20, READ),
    'terminate-bad-header': terminate(0x1206, 0xc0, b'\0\x12' + untagged(3, 0, version=2)),
    'terminate-cut': terminate(0x0102, 0xe0, b'\0\x2e' + untagged(1, 1) + READ[:-1]),
    'terminate-no-m': terminate(0x1101, 0x40, b'\0\x0e' + tagged(0)),
    'version-0': untagged(3, 0, version=0),
    'rdmap-version-0': untagged(3, 0, rdmap=0),
    'reserved-bits': b'\x7d\x73' + untagged(3, 0)[2:],
    'op-10': untagged(10, 1),
    'send-tagged': tagged(3),
    'write-untagged': untagged(0, 0),
    'send-queue-1': untagged(3, 1),
    'header-cut': untagged(3, 0)[:-1],
    'empty': b'',
}

# --- what the backends say to their like: which parser, packet ---------------------------------------

PARAMS = struct.pack('>QHB', 1 << 32, 2, 7)


def address(host, name):
    return struct.pack('>HH', len(host), len(name)) + host.ljust(16, b'\0') + name.ljust(64, b'\0')


def loopback_request(order=1, word=8, version=2, near=address(b'\x7f\0\0\1\0\0', b'me')):
    return b'\0VLCR' + bytes([version, order, word, 1]) + bytes(range(32)) + \
        struct.pack('>QQIIIHBB', 1, 2, 3, 4, 5, 6, 7, 8) + PARAMS + near + address(b'\x7f\0\0\1\0\0', b'you')


LOOPBACK_REPLY = b'\1VLRE\7\0\1\1' + bytes(range(16)) + struct.pack('>QIIIIQ', 1, 64, 2, 3, 4, 5) + PARAMS

LOOPBACK_NOTICE = b'\3VLNO\2\1\10\15'


def socket_hello(near=b'me', far=b'you', claimed=None, version=2, flags=7, reserved=0):
    return b'\2VIPL' + bytes([version, 1, flags, 0]) + struct.pack('>HHQI', 2, reserved, 1 << 32, 65000) + \
        bytes([len(near) if claimed is None else claimed, len(far)]) + near + far


HELLO = {
    'loopback-64-little': loopback_request(),
    'loopback-64-big': loopback_request(order=2),
    'loopback-32-big': loopback_request(order=2, word=4),
    'loopback-version-0': loopback_request(version=0),
    'loopback-cut': loopback_request()[:-1],
    'loopback-host-too-long': loopback_request(near=address(b'', b'').replace(b'\0\0', b'\0\x11', 1)),
    'loopback-reply': LOOPBACK_REPLY,
    'loopback-reply-cut': LOOPBACK_REPLY[:-1],
    'loopback-notice': LOOPBACK_NOTICE,
    'loopback-notice-cut': LOOPBACK_NOTICE[:-1],
    'loopback-notice-other': b'\3VLNO\3\2\4',
    'socket': socket_hello(),
    'socket-longest': socket_hello(b'a' * 64, b'b' * 64),
    'socket-too-long': socket_hello(b'a' * 65),
    'socket-claims-more': socket_hello(claimed=3),
    'socket-no-names': socket_hello(b'', b''),
    'socket-reserved-bits': socket_hello(flags=0xff, reserved=0xffff),
    'socket-version-1': socket_hello(version=1),
    'socket-cut': socket_hello()[:-1],
    'empty': b'',
}


# --- command lines: which tool, then its arguments ---------------------------------------------------

def words(tool, text):
    return bytes([tool]) + text.replace(' ', '\0').encode()


COMMAND_LINE = {
    'perf-pair': words(0, '--pair --test lat,bw --op all --size 1..256K --wait block --cq --json'),
    'perf-short': words(0, '-l -t all -o send,write -n 8 -T 0.5 -W 10 -R 3 -q 16 -v -L -X -r delivery -P 0,1'),
    'perf-client': words(0, '--client=02:00:00:00:00:01 --device tcp:lo --discriminator name --timeout 200'),
    'perf-csv': words(0, '--pair -F csv --format table'),
    'perf-stray': words(0, '--server stray'),
    'perf-no-role': words(0, '--iters 5'),
    'perf-size-backwards': words(0, '-p -n 8..4'),
    'perf-size-too-large': words(0, '-p -n 18446744073709551616'),
    'perf-size-too-long': words(0, '-p -n ' + '0' * 40 + '..1'),
    'perf-cpus-wrong': words(0, '-p -P 0,x'),
    'perf-long-name': words(0, '-s -D ' + 'n' * 65),
    'perf-help': words(0, '--help'),
    'ping-pair': words(1, '--pair --count 3 --size 1K --json --quiet --selftest'),
    'ping-client': words(1, '-C host -c 5 -n 64 -t 5000 -d loopback -r reception -D name -1'),
    'ping-two-roles': words(1, '--server --pair'),
    'ping-abbreviated': words(1, '--cl --cou 7'),
    'ping-version': words(1, '-V'),
    'info-devices': words(2, '--device loopback -d tcp:127.0.0.1 --json'),
    'info-aliases': words(2, 'one=tcp:1,two=,=three,,four=loopback'),
    'info-name-too-long': words(2, '-d ' + 'n' * 200),
    'info-many': words(2, ' '.join('-d%d' % i for i in range(63))),
    'conformance': words(3, '--device tcp:lo --level=posix --mode procs --junit out --tap --list [posix]~[fork]'),
    'conformance-peer': words(3, '--peer-device loopback --peer-netns /run/netns/x *case*'),
    'conformance-wrong-level': words(3, '--level high'),
    'conformance-no-value': words(3, '--mode'),
    'empty': b'',
    'no-arguments': b'\0',
}


# --- what a hostile peer does with a link, see tests/unit/hostile_script.hpp ---------------------------
# Two reliability levels (0 Unreliable, 1 Delivery, 2 Reception), then steps.

EXACT = b'\0' # a number as it should be


def number(value):
    return b'\3' + struct.pack('>I', value)


def message(kind, flags, total=EXACT, offset=EXACT, size=EXACT, rest=b'', session=b'\0' + EXACT, ticket=b'\1\1\0'):
    return b'\0' + number(kind) + bytes([flags]) + session + ticket + b'\7' + size + total + offset + rest


OPEN, SEND, PULL, WRITE, READ, DATA, ACK, CLOSE = range(2, 10)
IMMEDIATE, LAST, ANSWER, PLACED = 1, 2, 4, 8
REMOTE = EXACT + EXACT
TAKE, HANG_UP, DISCONNECT, DEREGISTER = b'\x09', b'\x0a', b'\x16', b'\x22'
POST_RECEIVE, POST_SEND = b'\x07\0\0\0', b'\x08\0\0\0'
LINK = {
    'send': b'\2\2' + message(SEND, LAST | ANSWER, rest=REMOTE) + TAKE,
    'send-in-two': b'\1\1' + message(SEND, 0, number(128), rest=REMOTE) + message(SEND, LAST, number(128), number(64), rest=REMOTE),
    'send-too-long': b'\0\1' + message(SEND, LAST, number(16384), size=number(16384), rest=REMOTE),
    'pull': b'\2\1' + message(PULL, LAST | ANSWER, number(4096), size=number(16), rest=EXACT),
    'pull-pieces-beyond': b'\2\1' + message(PULL, LAST | ANSWER, number(4096), size=number(16), rest=number(4097)),
    'write': b'\1\1' + message(WRITE, LAST | ANSWER, number(48), rest=REMOTE),
    'write-beyond': b'\1\1' + message(WRITE, LAST | ANSWER, number(48), rest=number(65530) + EXACT),
    'write-placed': b'\2\1' + message(WRITE, LAST | ANSWER | IMMEDIATE | PLACED, number(4096), size=number(16), rest=REMOTE),
    'read': b'\2\1' + message(READ, ANSWER, number(4096), size=number(16), rest=REMOTE) + TAKE,
    'read-and-deregister': b'\2\1' + message(READ, ANSWER, number(65536), size=number(16), rest=REMOTE) + DEREGISTER + TAKE,
    'data-for-nothing': b'\2\1' + message(DATA, LAST, rest=REMOTE),
    'ack-of-a-send': b'\2\1' + POST_SEND + message(ACK, 0, size=number(0), ticket=b'\1\0\0'),
    'close': b'\1\1' + message(CLOSE, 0, size=number(0)) + message(SEND, LAST, rest=REMOTE),
    'open-again': b'\1\1' + message(OPEN, 0, number(4097), size=number(0)),
    'disconnect-and-send': b'\1\1' + DISCONNECT + message(SEND, LAST | ANSWER, rest=REMOTE),
    'hang-up': b'\1\1' + message(SEND, LAST, rest=REMOTE) + HANG_UP,
    'head-lies': b'\1\1' + b'\x06\1\x40' + EXACT + number(0x80000000) + POST_SEND,
    'slots-lie': b'\1\1' + b'\x06\0\1' + number(0xffff0003) + b'\x06\0\0' + EXACT,
    'empty': b'',
}

# --- EFE: steps, each an opcode and its arguments ----------------------------------------------------

RAW, CRAFTED, TIME, GOOD, REPLAYED, ABOVE = (bytes([step]) for step in range(6))
DATA_FRAME, ACK_FRAME, CONTROL_FRAME, MESSAGE_ACK, PROBE, RESET = range(1, 7)
FIRST_LAST, ACK_NOW, NEW = 0xc0, 0x20, 0x10
SOME = GOOD + b'\x20' + GOOD + b'\x21'


def efe_frame(kind, flags, source=1, from_fn=1, to_fn=1, epoch=b'EPOC', offset=0, expected=b'NEXT', window=256, times=(1, 0, 0),
              payload=0, fill=0):
    return (CRAFTED + bytes([source, kind, flags, from_fn, to_fn]) + epoch + struct.pack('>h', offset) + expected +
            struct.pack('>HHHHBB', window, *times, payload // 2, fill))


def efe_raw(kind, payload, claimed=None, padding=b''):
    head = (bytes.fromhex('02000000000202000000000388b5') + bytes([0x10 | kind, NEW]) +
            struct.pack('>H', len(payload) if claimed is None else claimed) + bytes(3) + b'\1' + b'EPOCEPOC')
    frame = head.ljust(62, b'\0') + payload
    frame += crc32c(frame) + padding
    return RAW + struct.pack('>H', len(frame)) + frame


def wait(milliseconds):
    return TIME + struct.pack('>H', milliseconds * 100)


EFE = {
    'good-alone': SOME + wait(1) + SOME + wait(100),
    'new-flow': SOME + efe_frame(DATA_FRAME, NEW | FIRST_LAST, payload=64) + SOME,
    'new-flow-on-the-wire': efe_raw(DATA_FRAME, b'hello', padding=bytes(20)) + SOME,
    'new-flow-to-the-adapter': efe_frame(CONTROL_FRAME, NEW, to_fn=0xff, payload=32) + SOME,
    'new-flow-with-a-gap': efe_frame(DATA_FRAME, NEW, offset=2) + efe_frame(DATA_FRAME, NEW, offset=1) + wait(600) * 10 + SOME,
    'many-new-flows': b''.join(efe_frame(DATA_FRAME, NEW, from_fn=fn, source=1 + fn % 3) for fn in range(20)) + SOME + wait(1),
    'far-outside': efe_frame(DATA_FRAME, NEW) + efe_frame(DATA_FRAME, NEW, offset=300) + efe_frame(DATA_FRAME, NEW, offset=-5) + SOME,
    'unknown-epoch': efe_frame(DATA_FRAME, 0, source=0, from_fn=0, to_fn=0, payload=8) * 80 + SOME,
    'new-life-claimed': efe_frame(DATA_FRAME, NEW, source=0, from_fn=0, to_fn=0) * 3 + SOME,
    'ack-of-nothing': efe_frame(ACK_FRAME, 0, payload=32, fill=0xff) + efe_frame(DATA_FRAME, NEW) +
                      efe_frame(ACK_FRAME, 0, payload=32, fill=0xff) + SOME,
    'ack-too-short': efe_frame(ACK_FRAME, NEW, payload=30) + SOME,
    'probes': efe_frame(DATA_FRAME, NEW) + efe_frame(PROBE, NEW | ACK_NOW) * 5 + SOME,
    'resets': efe_frame(DATA_FRAME, NEW) + efe_frame(RESET, 0) + efe_frame(RESET, 0, source=0, from_fn=0, to_fn=0) + SOME,
    'function-not-there': efe_frame(MESSAGE_ACK, NEW, to_fn=100) * 3 + SOME,
    'window-0': efe_frame(DATA_FRAME, NEW, window=0) + wait(200) + SOME,
    'stopped-above': ABOVE + b'\x06' + efe_frame(DATA_FRAME, NEW) * 2 + efe_frame(DATA_FRAME, NEW, offset=1) + ABOVE + b'\x09' + SOME,
    'reset-above': efe_frame(DATA_FRAME, NEW) + ABOVE + b'\0' + wait(5) + efe_frame(DATA_FRAME, NEW) + ABOVE + b'\3' + SOME,
    'replayed': SOME + wait(10) + b''.join(REPLAYED + struct.pack('>HH', i, i % 3) for i in range(60)) + SOME,
    'type-unknown': efe_frame(7, 0) + efe_frame(0, 0) + efe_frame(0x21, 0) + SOME,
    'length-lies': efe_raw(DATA_FRAME, b'hello', claimed=500) + efe_raw(DATA_FRAME, b'hello', claimed=4) + RAW + b'\0\5short' + SOME,
    'empty': b'',
}

# --- the card: steps of a driver that does anything, each an opcode and its arguments --------------------------------------

(REGISTER, CONFIG, MEMORY, QP_DOORBELL, CQ_DOORBELL, BUS, PASS, FAIL_DMA, WORK, FRAME, CARD_RESET, SLEEP, READ,
 COMMAND, DEVICE_STORE, WINDOW_STORE, WINDOW_LATER, RAW_QP, SINGLE) = (bytes([step]) for step in range(19))
SEND, WRITE, RDMA_READ, RECEIVE = 1, 2, 3, 16


def work(opcode, length, flags=0, segments=1, at=0, remote_tag=0, tag=0, second=b''):
    return (WORK + bytes([opcode == RECEIVE, opcode, flags, segments]) + struct.pack('>H', length) + bytes([0, remote_tag]) +
            struct.pack('>H', at) + bytes([tag, len(second)]) + second)


def window(opcode, length, flags=0, which=0, right=True, payload=b'window', cookie=5, at=8):
    """Stores to the slot of the entry that is posted next; `which` % 9: or so many before it."""
    header = struct.pack('<HBBIIIQQII', length, opcode, flags, cookie, 6, 0, 0x4000, 0x4000, 0, 0)
    return WINDOW_STORE + bytes([which]) + struct.pack('>H', at) + bytes([len(header + payload)]) + header + payload + bytes([right]) + bytes(2 * right)


def window_later(transactions, at, stored):
    """Stores to windows when so many more transactions have been."""
    return WINDOW_LATER + bytes([transactions - 1]) + struct.pack('>H', at) + bytes([len(stored)]) + stored


def raw_work(receive, length, launch=0, at=0):
    return RAW_QP + bytes([2, receive]) + struct.pack('>HHB', length, launch, at)


def raw_frame(length, behind=b''):
    """A frame that comes by the wire; `behind` replaces what is behind the EtherType."""
    return RAW_QP + b'\3' + struct.pack('>HB', length, 14) + behind + bytes(length - len(behind))


def single(offset, count=1, width=8, advances=True):
    """Stores into the AOTF space, all to one place."""
    return SINGLE + b'\1' + offset.to_bytes(3, 'big') + bytes([width, count - 1, advances])


def template(page, tag=0, words=0, count=1):
    """A template, and stores to the first page."""
    return SINGLE + bytes([4 * page, tag]) + struct.pack('>H', words) + bytes([0, 0, 0, 8, count - 1, 1])


def card_command(opcode, thing=0, fields=b'', kind=0):
    return COMMAND + bytes([opcode, kind, thing, len(fields)]) + fields


def register(offset, value):
    return REGISTER + struct.pack('>HI', offset, value)


def some_time(microseconds=1000):
    return PASS + struct.pack('>H', microseconds)


CARD = {
    'sends-to-itself': (work(RECEIVE, 2000) * 3 + work(SEND, 1500) * 3 + some_time()) * 3,
    'sends-without-receives': work(SEND, 100) + some_time() + CARD_RESET + work(WRITE, 100, flags=1) + some_time(),
    'too-long': work(RECEIVE, 20) + work(SEND, 2000) + some_time(),
    'rdma': work(WRITE, 3000) + work(RDMA_READ, 3000) * 6 + work(SEND, 0, flags=2) + some_time() * 4,
    'wrong-tags': work(WRITE, 10, remote_tag=255) + some_time() + CARD_RESET + work(SEND, 10, tag=255) + some_time() +
                  CARD_RESET + work(RECEIVE, 10, tag=255) + work(SEND, 10) + some_time(),
    'lists': MEMORY + b'\x40\x00\x40' + struct.pack('<QII', 0x4000, 8, 0) * 4 + work(SEND, 32, flags=4, segments=4) + some_time() +
             work(SEND, 32, flags=4, segments=255) + some_time(),
    'wrong-entries': work(99, 5) + some_time() + CARD_RESET + work(SEND, 5, segments=3) + some_time() + CARD_RESET +
                     work(SEND, 5, flags=0xF8) + some_time(),
    'dma-fails': b''.join(work(RECEIVE, 2000) + FAIL_DMA + bytes([n]) + work(SEND, 1500) + some_time() + CARD_RESET
                          for n in range(6)),
    'doorbells': QP_DOORBELL + b'\x20\xff\xff' + some_time() + CARD_RESET + CQ_DOORBELL + b'\x20\xff\xff' + some_time(),
    'too-many-commands': BUS + b'\x00\x00\x40\x04' + struct.pack('>I', 1000) + some_time(),
    'every-command': b''.join(card_command(op, thing, b'\1' * 52) for op in range(18) for thing in (0, 2, 255)) + some_time(),
    'states': b''.join(card_command(5, 2, bytes(16) + bytes([to]) + bytes(30)) + some_time(10) for to in (3, 4, 0, 1, 2, 4, 0, 4)),
    'destroys': b''.join(card_command(op, thing) for op in (7, 3, 11) for thing in (0, 1, 2, 255)) + work(SEND, 9) + some_time(),
    'page-lists': card_command(9, 0, struct.pack('<HBBIIQQQ', 0, 3, 12, 1, 2, 0x4000, 0x1800, 0x4000)) + some_time() +
                  card_command(9, 0, struct.pack('<HBBIIQQQ', 0, 3, 12, 1, 0xFFFFFFFF, 0, 0xFFFFFFFF000, 0x4000)),
    'control-messages': card_command(12, 1, struct.pack('<HHQ', 4, 0, 0x4000)) + MEMORY + b'\x40\x10\x14' +
                        bytes.fromhex('01000004000000020000000000000001') + bytes(4) +
                        card_command(14, 0, struct.pack('<HHQQ6sH', 20, 0, 0x4010, 0, b'\2\0\0\0\0\1', 0xFFFF)) * 12 +
                        card_command(14, 0, struct.pack('<HHQQ6sH', 20, 0, 0x4010, 0, b'\2\0\0\0\0\1', 0)) * 12 + some_time(),
    'bus-master-off': CONFIG + b'\x04\2' + bytes(4) + work(SEND, 10) + some_time() + CONFIG + b'\x04\2\0\0\0\6' + CARD_RESET,
    'function-level-reset': work(SEND, 2000) + CONFIG + b'\x68\2\0\0\x80\0' + some_time() + CARD_RESET + work(RECEIVE, 9) + some_time(),
    'big-endian': register(0x40, 2) + register(0x40, 4) + register(0x80, 0x1000) + register(0x40, 5) + some_time() + CARD_RESET,
    'interrupts': register(0x68, 100) + register(0x6C, 2) + register(0x64, 0xFFFF) + work(WRITE, 1) * 3 + some_time() +
                  register(0x64, 0) + CQ_DOORBELL + b'\x21\0\1' + some_time(10) + some_time(),
    'sleeps': SLEEP + work(WRITE, 8) + SLEEP + some_time() + SLEEP + register(0xC0, 1) + SLEEP,
    'reads': READ + b'\0\0\0\0\0\10' + READ + b'\2\xff\xff\xff\xff\10' + READ + b'\7\0\0\1\0\4',
    'strange-frames': FRAME + b'\1\x40\16' + bytes(100) + FRAME + b'\0\0\0' + FRAME + b'\2\xbb\14' + b'\x88\xb5\x11\x10',
    'windows': b''.join(window(op, length, flags) + work(RECEIVE, 900) + work(SEND, 100) + some_time()
                        for op, length, flags in ((SEND, 100, 0), (WRITE, 464, 1), (SEND, 465, 0), (RDMA_READ, 8, 0), (SEND, 8, 4),
                                                  (SEND, 0, 0), (SEND, 8, 2))) +
               window(SEND, 50, right=False) + work(SEND, 50) + window(SEND, 60, which=8) + some_time() + CARD_RESET +
               window(SEND, 70) + card_command(16, 0) + card_command(16, 0) + card_command(16, 9) + work(SEND, 70) + some_time(),
    'windows-later': b''.join(window(SEND, 60, payload=bytes(range(60))) + window_later(after, 512 * n + at, stored) + work(RECEIVE, 900) +
                              work(SEND, 60) + some_time()
                              for n, (after, at, stored) in enumerate(((1, 0, b'\x09\0\0\0'), (1, 4, b'\x0a\0\0\0'), (1, 8, b'\xff\xff'),
                                                                       (2, 48, bytes(64)), (1, 40, b'\xff' * 4), (1, 10, b'\x03')))),
    'raw': RAW_QP + b'\0\3' + b''.join(raw_work(True, n) for n in (600, 20, 0)) + raw_frame(60) + raw_frame(600) + raw_frame(14) +
           raw_frame(100, b'missed') + b''.join(raw_work(False, n) for n in (14, 590, 594, 595, 13)) + some_time() +
           raw_work(False, 60, at=200) + raw_work(False, 100, 65000) + some_time() + RAW_QP + b'\1\3' + some_time() + RAW_QP + b'\1\4' +
           RAW_QP + b'\1\0' + RAW_QP + b'\1\2' + raw_work(False, 100) + FAIL_DMA + b'\5' + some_time() + RAW_QP + b'\0\0' +
           raw_work(False, 100, 1) + CARD_RESET + raw_frame(60),
    'singles': single(0) + single(8, 80) + single(16, 64, advances=False) + single(24) + some_time() +
               b''.join(single(64, width=width) for width in range(10)) + single(0xFFF, width=1) + single(0xFFC) + single(0xFFFFF, width=1) +
               template(0, words=0xFFFF) + some_time() + CARD_RESET + template(0, 128) + template(3, 255) + single(0x3008) + some_time() +
               template(1) + CARD_RESET + template(0),
    'singles-end': template(0, count=60) + single(0, 60, advances=False) + card_command(5, 2, bytes(16) + b'\3' + bytes(30)) + single(0, 9) +
                   card_command(5, 2, bytes(16) + b'\4' + bytes(30)) + single(0, 9) + card_command(7, 2) + single(0) + CARD_RESET +
                   work(WRITE, 5000) + template(0, count=64) + FAIL_DMA + b'\2' + single(0, 64) + some_time() + CARD_RESET + template(0) +
                   single(0, 64, advances=False) + CARD_RESET,
    'device-memory': DEVICE_STORE + b'\0\0\x20' + bytes(range(32)) + work(RECEIVE, 3000, tag=128, at=8000) +
                     work(SEND, 3000, tag=128) + work(WRITE, 4000, remote_tag=128, tag=128, at=9000) +
                     work(RDMA_READ, 4000, remote_tag=128, at=0x1000) + some_time() +
                     work(WRITE, 4000, tag=128, at=8289) + some_time() + CARD_RESET +  # a byte behind its end
                     card_command(9, 0, struct.pack('<HBBIIQQQ', 0, 67, 0, 1, 0, 0x4000, 12288, 0)) +
                     card_command(9, 0, struct.pack('<HBBIIQQQ', 0, 67, 0, 1, 0, 0x4000, 12288, 1)) +
                     card_command(9, 0, struct.pack('<HBBIIQQQ', 0, 67, 12, 1, 1, 0x4000, 4096, 0)) + some_time(),
    'empty': b'',
}


# --- vfio_user: steps of two bytes, what goes along (3 bits) and how many bytes follow (13 bits), and those bytes -------------------

EVENT, SEALABLE, UNSEALABLE, DEVICE, NOTHING = range(5)
VERSION, DMA_MAP, DMA_UNMAP, GET_INFO, GET_REGION_INFO, GET_REGION_IO_FDS, GET_IRQ_INFO, SET_IRQS, REGION_READ, REGION_WRITE = range(1, 11)
DMA_READ, DMA_WRITE, DEVICE_RESET, WRITE_MULTI = 11, 12, 13, 15


def step(data, along=NOTHING):
    return struct.pack('>H', along << 13 | len(data)) + data


def vfu(command, payload=b'', along=NOTHING, flags=0, claimed=None):
    size = 16 + len(payload) if claimed is None else claimed
    return step(struct.pack('<HHIII', 7, command, size, flags, 0) + payload, along)


def greet(capabilities=b''):
    return vfu(VERSION, struct.pack('<HH', 0, 0) + capabilities)


def access(command, region, offset, count, data=b''):
    return vfu(command, struct.pack('<QII', offset, region, count) + data)


def dma_map(address, size, along=NOTHING, flags=3, offset=0):
    return vfu(DMA_MAP, struct.pack('<IIQQQ', 32, flags, offset, address, size), along)


def dma_unmap(address, size):
    return vfu(DMA_UNMAP, struct.pack('<IIQQ', 24, 0, address, size))


def irqs(flags, index, first, count, along=NOTHING, data=b''):
    return vfu(SET_IRQS, struct.pack('<IIIII', 20 + len(data), flags, index, first, count) + data, along)


ASKS = vfu(GET_INFO, bytes(16)) + b''.join(vfu(GET_REGION_INFO, struct.pack('<IIIIQQ', 32, 0, i, 0, 0, 0)) for i in range(10)) + b''.join(
    vfu(GET_IRQ_INFO, struct.pack('<IIII', 16, 0, i, 0)) for i in range(6))
OURS = b'{"capabilities":{"max_msg_fds":16,"vipl_memory_file":true,"write_multiple":true}}\0'
VFIO_USER = {
    'as-qemu': greet(b'{"capabilities":{"migration":{"pgsize":4096},"max_msg_fds":16,"write_multiple":true}}\0') + ASKS +
               access(REGION_READ, 7, 0, 4) + access(REGION_WRITE, 7, 0x10, 4, b'\xff' * 4) + access(REGION_READ, 7, 0x10, 4) +
               dma_map(0, 65536, SEALABLE) + dma_unmap(0, 1 << 32) + irqs(0x24, 2, 0, 1, EVENT) + irqs(0x21, 2, 0, 0),
    'not-greeted': vfu(GET_INFO, bytes(16)),
    'greeted-twice': greet() + greet(),
    'greeting-not-json': greet(b'{"capabilities":') + greet(b'[[[[[[[[[[[[[[[[[[[[') + greet(b'{"a":"\\'),
    'other-version': vfu(VERSION, struct.pack('<HH', 1, 0)),
    'header-alone': step(struct.pack('<HHIII', 1, 1, 16, 0, 0)),
    'too-long': vfu(VERSION, bytes(4), claimed=0xffffffff),
    'too-short': vfu(VERSION, bytes(4), claimed=15),
    'neither-command-nor-reply': vfu(VERSION, bytes(4), flags=2),
    'cut': vfu(VERSION, bytes(4))[:-3],
    'in-pieces': step(struct.pack('<HHI', 7, VERSION, 20), EVENT) + step(bytes(8)) + step(bytes(4), SEALABLE) + ASKS,
    'replies-unasked': greet() + vfu(DMA_READ, bytes(16), flags=1),
    'maps': greet(OURS) + dma_map(0, 4096, SEALABLE) + dma_map(4096, 4096, UNSEALABLE) + dma_map(8192, 4096, DEVICE) + dma_map(16384, 4096, EVENT) +
            dma_map(0, 4096, SEALABLE) + dma_map(1 << 20, 1 << 40, SEALABLE) + dma_map((1 << 64) - 1, 2) + dma_map(1 << 30, 16, SEALABLE, 0x40000003) +
            dma_unmap(4096, 4096) + dma_unmap(0, 100) + dma_unmap(0, (1 << 64) - 1) + dma_unmap(1, 0),
    'irqs': greet() + irqs(0x24, 2, 0, 1, SEALABLE) + irqs(0x24, 2, 15, 1, EVENT) + irqs(0x24, 2, 16, 1, EVENT) + irqs(0x22, 2, 15, 1, data=b'\1') +
            irqs(0x24, 2, 0xffffffff, 2, EVENT) + irqs(0x09, 2, 0, 1) + irqs(0x24, 0, 0, 1, EVENT) + irqs(0x24, 2, 15, 1) + irqs(0x21, 2, 0, 16),
    'registers': greet() + access(REGION_READ, 0, 0, 4096) + access(REGION_READ, 2, 0xffffff, 1) + access(REGION_READ, 2, 0xffffff, 2) +
                 access(REGION_WRITE, 0, 0x40, 4, b'\1\0\0\0') + access(REGION_WRITE, 0, 0x2000, 256, b'\xff' * 256) + access(REGION_READ, 1, 0, 0) +
                 access(REGION_WRITE, 0, 0, 100, b'few') + access(REGION_READ, 0, (1 << 64) - 4, 8),
    'multi': greet() + vfu(WRITE_MULTI, struct.pack('<Q', 2) + struct.pack('<QIIQ', 0x60, 0, 4, 5) * 2) + vfu(WRITE_MULTI, struct.pack('<Q', 1 << 60)) +
             vfu(WRITE_MULTI, struct.pack('<Q', 1) + struct.pack('<QIIQ', 0x60, 0, 9, 5)) + vfu(WRITE_MULTI),
    'resets': greet() + vfu(DEVICE_RESET) + access(REGION_WRITE, 0, 0x40, 4, b'\2\0\0\0') + vfu(DEVICE_RESET, b'more'),
    'bus-master-and-enabled': greet() + access(REGION_WRITE, 7, 4, 2, b'\6\0') + dma_map(0, 65536, SEALABLE) +
                              access(REGION_WRITE, 0, 0x80, 12, struct.pack('<III', 0, 0, 4)) + access(REGION_WRITE, 0, 0x90, 8, struct.pack('<II', 8192, 0)) +
                              access(REGION_WRITE, 0, 0xa0, 12, struct.pack('<III', 16384, 0, 4)) + access(REGION_WRITE, 0, 0x40, 4, b'\1\0\0\0') +
                              access(REGION_WRITE, 2, 0x40, 4, b'\3\0\0\0') + access(REGION_WRITE, 2, 0x400000, 8, bytes(8)),
    'unknown-commands': greet() + vfu(14) + vfu(16, bytes(8)) + vfu(0) + vfu(0xffff) + vfu(GET_REGION_IO_FDS, bytes(16)),
    'empty': b'',
}


# --- messages of the handshake of sockets: 128 bytes, and what follows them --------------------------------------------------

SOCKETS_VERSION = 2
SOCKETS_MAGIC = b'\x89VIPL-socket\r\n\x1a\n'


def sockets_message(kind=1, version=SOCKETS_VERSION, host=b'\1\2\3\4\5\6', why=0, messages=32, size=65536, nonce=b'0123456789abcdef', device=b'loopback', user=1000,
                    magic=SOCKETS_MAGIC, host_length=None, end=b''):
    text = magic + bytes([kind, version, len(host) if host_length is None else host_length, why]) + struct.pack('<II', messages, size) + nonce
    return (text + host.ljust(16, b'\0') + device.ljust(32, b'\0') + struct.pack('<I', user)).ljust(128 - len(end), b'\0') + end


SOCKETS = {
    'hello': sockets_message(),
    'hello-and-commit': sockets_message() + b'T',
    'hello-and-garbage': sockets_message() + b'g' * 500,
    'hello-cut': sockets_message()[:100],
    'hello-of-another-version': sockets_message(version=99, end=b'more'),
    'hello-largest': sockets_message(host=b'h' * 16, device=b'd' * 31, messages=4096, size=1 << 20, user=0xffffffff),
    'hello-host-too-long': sockets_message(host_length=17),
    'hello-host-0': sockets_message(host=b''),
    'hello-host-and-more': sockets_message(host_length=5),
    'hello-window-0': sockets_message(messages=0),
    'hello-window-largest': sockets_message(messages=0xffffffff, size=0xffffffff),
    'hello-window-swapped': sockets_message(messages=0x20000000, size=0x100),
    'hello-no-device': sockets_message(device=b''),
    'hello-device-too-long': sockets_message(device=b'd' * 32),
    'hello-device-and-more': sockets_message(device=b'loop\0back'),
    'hello-not-0-behind': sockets_message(end=b'x'),
    'welcome': sockets_message(kind=2) + b'V',
    'welcome-without-a-window': sockets_message(kind=2, messages=1, size=0),
    'decline': sockets_message(kind=3, why=6, host=b'', device=b'', messages=0, size=0, nonce=bytes(16), user=0),
    'decline-and-more': sockets_message(kind=3, why=255),
    'kind-0': sockets_message(kind=0),
    'kind-4': sockets_message(kind=4),
    'magic-alone': SOCKETS_MAGIC,
    'magic-cut': SOCKETS_MAGIC[:7],
    'magic-wrong-at-its-end': sockets_message(magic=SOCKETS_MAGIC[:15] + b'\r'),
    'http': b'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n',
    'commit-alone': b'V',
    'empty': b'',
}

# --- the transaction log of a card: text, and pcapng in either byte order ---------------------------------------------------


def log_line(kind, bar=0, address=0, value=0, size=0, data=None):
    return ('5.000000001 fn=1 %s bar=%d address=0x%x value=0x%x bytes=%d%s\n' %
            (kind, bar, address, value, size if data is None else len(data), '' if data is None else ' data=' + data.hex())).encode()


def log_life(order):
    """A function that is enabled, gets a command and answers it, and then has one of each ring."""
    out = b''.join(log_line('register-write', 0, at, value, 4) for at, value in (
        (0x80, 0x1000), (0x84, 0), (0x88, 2), (0x90, 0x2000), (0x94, 0), (0xA0, 0x3000), (0xA4, 0), (0xA8, 2), (0x40, 5 if order == '>' else 1)))
    for place, (opcode, info) in enumerate(((1, 3), (4, 6), (6, 0), (5, 0))):
        command = struct.pack(order + 'HHIIHHQQB', opcode, 0, 0, 6, 2, 1, 0x4000 + 0x1000 * (opcode == 6), 0, 2)
        out += log_line('dma-read', 0, 0x1000 + 64 * place, data=command + bytes(64 - len(command)))
        out += log_line('dma-write', 0, 0x2000 + 32 * place, data=struct.pack(order + 'IIIIBBHII', 6, 0, 0, 0, opcode, 0, 0, info, 0))
    out += log_line('dma-read', 0, 0x5040, data=b'\1' + bytes(63)) + log_line('doorbell', 2, 0x400180, 1)
    out += log_line('dma-write', 0, 0x4020, data=struct.pack(order + 'IIIIBBHII', 6, 0, 9, 0, 31, 0, 0, 1, 0))
    out += log_line('dma-write', 0, 0x3000, data=struct.pack(order + 'HHI', 2, 13, 6) + bytes(500))
    return out + log_line('interrupt', value=1) + log_line('reset') + log_line('sleep', value=1)


def log_block(order, kind, body):
    return struct.pack(order + 'II', kind, len(body) + 12) + body + struct.pack(order + 'I', len(body) + 12)


def log_pcapng(order, frame=efe_raw(3, b'\1' + bytes(15))[len(RAW) + 2:]):
    out = log_block(order, 0x0A0D0D0A, struct.pack(order + 'IHHq', 0x1A2B3C4D, 1, 0, -1))
    for link in (1, 147):
        out += log_block(order, 1, struct.pack(order + 'HHIHHB3xHH', link, 0, 0, 9, 1, 9, 0, 0))
    along = struct.pack(order + 'HHIHHIHH', 2, 4, 1, 6, 4, 2, 0, 0)
    for link, data, options in ((0, frame, along), (1, struct.pack('>BBHBBHQQI', 1, 6, 1, 0, 0, 0, 64, 0, 4) + b'data', b'')):
        out += log_block(order, 6, struct.pack(order + 'IIIII', link, 0, 7, len(data), len(data)) + data + bytes(-len(data) % 4) + options)
    return out


RNIC_LOG = {
    'text': log_life('<'),
    'text-big-endian': log_life('>'),
    'text-cut': log_life('<')[:500],
    'text-of-a-larger-ring': log_life('<').replace(log_line('reset'), log_line('register-write', 0, 0x88, 12, 4) + log_line('dma-read', 0, 0x9000, data=bytes(64))),
    'text-a-frame-without-data': log_line('frame-sent', size=100),
    'pcapng': log_pcapng('<'),
    'pcapng-big-endian': log_pcapng('>'),
    'pcapng-cut': log_pcapng('<')[:200],
    'pcapng-two-sections': log_pcapng('<') + log_pcapng('>'),
    'empty': b'',
}


# --- bus: a byte that chooses the end that is tested, then pieces: how many bytes (2) and those ------------------------------------

HELLO_, READ_, WRITE_, RESET_, DONE_, DMA_READ_, DMA_DATA_, DMA_WRITE_, INTERRUPT_, BYE_ = range(1, 11)


def bus(kind, data=b'', function=0, id=0, width=0, space=0, status=0, address=0, value=0, length=None):
    return struct.pack('<IHHQIHBBQQ', 40 + len(data) if length is None else length, kind, function, 0, id, width, space, status,
                       address, value) + data


def to_driver(*pieces):
    return b'\0' + b''.join(struct.pack('>H', len(piece)) + piece for piece in pieces)


def to_adapter(*pieces):
    hello = bus(HELLO_, id=0x53554256, value=1)
    return b'\1' + b''.join(struct.pack('>H', len(piece)) + piece for piece in (hello,) + pieces)


BUS = {
    'driver-reads': to_driver(*[bus(DMA_READ_, id=n, address=0x1000, value=4096) for n in range(40)]),
    'driver-at-once': to_driver(b''.join(bus(DMA_READ_, id=n, address=0x1000, value=4096) for n in range(300))),
    'driver-writes': to_driver(bus(DMA_WRITE_, bytes(range(256)) * 16, address=0x1000), bus(DMA_WRITE_, b'x', address=0x1fff)),
    'driver-beside': to_driver(bus(DMA_READ_, address=0xfff, value=2), bus(DMA_READ_, address=0x1fff, value=2), bus(DMA_WRITE_, b'xy', address=0x1fff)),
    'driver-end-of-addresses': to_driver(bus(DMA_READ_, address=0xffffffffffffffff, value=1), bus(DMA_READ_, address=0xffffffffffffffff, value=2)),
    'driver-interrupts': to_driver(bus(INTERRUPT_, value=15), bus(INTERRUPT_, value=16)),
    'driver-done': to_driver(bus(DONE_, id=0x53554256)),
    'driver-cut': to_driver(bus(DMA_WRITE_, bytes(100), address=0x1000)[:77]),
    'driver-byte-by-byte': to_driver(*[bytes([byte]) for byte in bus(DMA_READ_, address=0x1000, value=8)]),
    'driver-longest': to_driver(bus(DMA_WRITE_, bytes(4097), address=0x1000)),
    'driver-bye': to_driver(bus(BYE_), bus(DMA_READ_, address=0x1000, value=8)),
    'adapter-registers': to_adapter(*[bus(READ_, id=n, width=4, space=space, address=n * 4) for space in (0, 2, 4, 7) for n in range(8)]),
    'adapter-widths': to_adapter(*[bus(kind, width=width, space=0, address=0x40, value=0x55) for width in (1, 2, 4, 8) for kind in (WRITE_, READ_)]),
    'adapter-nothing-there': to_adapter(*[bus(kind, width=8, space=space, address=0xfffffffffffffff8) for space in (0, 1, 5, 7) for kind in (WRITE_, READ_)]),
    'adapter-writes': to_adapter(b''.join(bus(WRITE_, width=4, space=2, address=0x40, value=n) for n in range(257))),
    'adapter-reset': to_adapter(bus(RESET_, id=1), bus(RESET_, id=2) + bus(READ_, width=4)),
    'adapter-unasked': to_adapter(bus(DMA_DATA_, b'1234', id=0)),
    'adapter-hello-twice': to_adapter(bus(HELLO_, id=0x53554256, value=1)),
    'adapter-function-1': to_adapter(bus(READ_, function=1, width=4)),
    'adapter-other-version': b'\1\0\x28' + bus(HELLO_, id=0x53554256, value=2),
    'adapter-cut': to_adapter(bus(READ_, width=4)[:39]),
    'empty': b'',
}


# --- recordings: a byte that chooses, then pcap, pcapng, or an index ------------------------------------------------------------

def pcap(order, records, magic=0xa1b2c3d4, link=1, version=2):
    return b'\0' + struct.pack(order + 'IHHiIII', magic, version, 4, 0, 0, 65535, link) + b''.join(
        struct.pack(order + 'IIII', seconds, fraction, len(data) if length is None else length, 1514) + data
        for seconds, fraction, data, length in records)


def ng_block(order, kind, body, length=None):
    body += bytes(-len(body) % 4)
    whole = len(body) + 12 if length is None else length
    return struct.pack(order + 'II', kind, whole) + body + struct.pack(order + 'I', whole)


def ng(order, blocks=b'', options=b'', link=1):
    return (ng_block(order, 0x0a0d0d0a, struct.pack(order + 'IHHq', 0x1a2b3c4d, 1, 0, -1)) +
            ng_block(order, 1, struct.pack(order + 'HHI', link, 0, 0) + options) + blocks)


def ng_packet(order, kept=None, interface=0, high=0, low=0, size=60):
    return ng_block(order, 6, struct.pack(order + 'IIIII', interface, high, low, size if kept is None else kept, size) + b'p' * size)


def dm_index(entries, packets=1, longest=60, count=None, store=1000):
    head = b'VIPLDMIX' + struct.pack('<IIQQQQQQQ', 1, longest, len(entries) if count is None else count, packets, store, 1, 0, 0, 0)
    return b'\1' + head.ljust(128, b'\0') + b''.join(struct.pack('<QII', *entry) for entry in entries)


TWO = [(1, 999999, b'p' * 60, None), (20, 0, b'q' * 61, None)]
RECORDING = {
    'pcap-little': pcap('<', TWO),
    'pcap-big-nanoseconds': pcap('>', TWO, magic=0xa1b23c4d),
    'pcap-not-ethernet': pcap('<', TWO, link=101),
    'pcap-version-9': pcap('<', TWO, version=9),
    'pcap-cut': pcap('<', TWO)[:-1],
    'pcap-length-largest': pcap('>', [(0, 0, b'p' * 60, 0xffffffff)]),
    'pcap-length-limit': pcap('>', [(0, 0, b'p' * 60, 262144)]),
    'pcap-empty-packets': pcap('<', [(0xffffffff, 0xffffffff, b'', None)] * 9),
    'pcap-back-in-time': pcap('<', [(9, 0, b'p' * 14, None), (1, 0, b'p' * 14, None), (10, 0, b'p' * 14, None)]),
    'ng-little': b'\0' + ng('<', ng_packet('<') + ng_packet('<', high=1)),
    'ng-both': b'\0' + ng('<', ng_packet('<')) + ng('>', ng_packet('>')),
    'ng-resolution-binary': b'\0' + ng('>', ng_packet('>', low=77), options=struct.pack('>HHB3xHH', 9, 1, 0xff, 0, 0)),
    'ng-offset': b'\0' + ng('>', ng_packet('>', low=77), options=struct.pack('>HHq', 14, 8, -1)),
    'ng-option-too-long': b'\0' + ng('<', ng_packet('<'), options=struct.pack('<HHI', 9, 0xffff, 0)),
    'ng-length-0': b'\0' + ng('<', ng_block('<', 6, b'', length=0)),
    'ng-length-odd': b'\0' + ng('<', ng_block('<', 6, b'p' * 40, length=53)),
    'ng-length-largest': b'\0' + ng('>', ng_block('>', 9, b'', length=0xfffffffc)),
    'ng-packet-too-long': b'\0' + ng('<', ng_packet('<', kept=61)),
    'ng-packet-huge': b'\0' + ng('<', ng_packet('<', kept=0xffffffff)),
    'ng-no-interface': b'\0' + ng('<', ng_packet('<', interface=1)),
    'ng-simple-and-old': b'\0' + ng('<', ng_block('<', 3, struct.pack('<I', 60) + b'p' * 60) + ng_block('<', 2, struct.pack('<HHIIII', 0, 0, 0, 0, 60, 60) + b'p' * 60)),
    'ng-section-alone': b'\0' + ng('>')[:12],
    'ng-interfaces': b'\0' + ng('<') + ng_block('<', 1, struct.pack('<HHI', 1, 0, 0)) * 1100,
    'index': dm_index([(40, 60, 0), (5000000000, 0, 0), (140, 60 | 0x80000000, 7)], packets=2),
    'index-outside': dm_index([(990, 60, 0)]),
    'index-wraps': dm_index([(0xffffffffffffffff, 60, 0)]),
    'index-back': dm_index([(140, 60, 0), (40, 60, 0)], packets=2),
    'index-short': dm_index([(40, 60, 0)], count=2),
    'index-entries-largest': dm_index([], packets=0, count=0xffffffffffffffff),
    'index-longest-wrong': dm_index([(40, 61, 0)]),
    'index-longest-huge': dm_index([(40, 61, 0)], longest=0x0400003c),
    'index-cut': dm_index([(40, 60, 0)])[:100],
    'empty': b'',
}


# --- endpoints of the libfabric provider ---


def datagram(kind, flags=0, pieces=(), number=7, tag=1, data=2, length=None, end=b'', count=None):
    body = b''.join(struct.pack('>QQII', *piece, 0) for piece in pieces)
    total = sum(piece[1] for piece in pieces) if pieces else len(end)
    return (b'\0' + struct.pack('>BBBBIQQQ', kind, flags, len(pieces) if count is None else count, 0, number, tag, data,
                                total if length is None else length) + body + end)


def connection_hello(magic=0x5f, version=1, accepted=1, length=None, private=b''):
    return b'\2' + struct.pack('>BBBBIIQ', magic, version, accepted, len(private) if length is None else length, 256, 9, 0x1000) + private


DATAGRAMS = {
    'message': datagram(1, 3, end=b'abcd'),
    'message-empty': datagram(1),
    'message-too-long': datagram(1, end=b'abcd', length=5),
    'message-with-pieces': datagram(1, pieces=[(0x1000, 4, 5)]),
    'offer': datagram(2, 1, pieces=[(0x1000, 20000, 5), (0x9000, 1, 6)]),
    'offer-of-four': datagram(2, 1, pieces=[(0x1000, 5000, 5)] * 4),
    'offer-of-five': datagram(2, 1, pieces=[(0x1000, 5000, 5)] * 5),
    'offer-of-nothing': datagram(2),
    'offer-short': datagram(2, pieces=[(0x1000, 20000, 5)], length=20001),
    'offer-wraps': datagram(2, pieces=[(0x1000, 0xffffffffffffffff, 5), (0x1000, 1, 5)], length=0),
    'offer-cut': datagram(2, pieces=[(0x1000, 20000, 5)])[:-1],
    'done': datagram(3),
    'done-with-more': datagram(3, end=b'a', length=0),
    'first-part': datagram(1, 1, length=40000, end=bytes(16384)),
    'first-part-short': datagram(1, 1, length=40000, end=bytes(16383)),
    'first-part-of-too-much': datagram(1, 1, length=65537, end=bytes(16384)),
    'part': datagram(4, end=b'abcd'),
    'part-empty': datagram(4),
    'part-short': datagram(4, end=b'abcd', length=5),
    'unknown': datagram(5),
    'name-4': b'\1' + struct.pack('>BBH4s', 4, 0, 7174, b'\x7f\0\0\1'),
    'name-6': b'\1' + struct.pack('>BBH16s', 6, 0, 7174, b'\xfe\x80' + bytes(14)),
    'name-cut': b'\1' + struct.pack('>BBH3s', 4, 0, 7174, b'\x7f\0\0'),
    'name-unknown': b'\1' + struct.pack('>BBH16s', 5, 0, 7174, bytes(16)),
    'hello': connection_hello(private=b'private'),
    'hello-cut': connection_hello(private=b'private', length=8),
    'hello-longest': connection_hello(private=bytes(40)),
    'hello-too-long': connection_hello(private=bytes(41)),
    'hello-of-another-version': connection_hello(version=2),
    'empty': b'',
}


def holds(path, data):
    if not os.path.exists(path):
        return False
    with open(path, 'rb') as file:
        return file.read() == data


def main(checks):
    wrong = []
    for target, inputs in (('mpa_start', MPA_START), ('fpdu', FPDU), ('rdmap', RDMAP), ('hello', HELLO),
                            ('command_line', COMMAND_LINE), ('link', LINK), ('efe', EFE), ('card', CARD),
                            ('vfio_user', VFIO_USER), ('bus', BUS), ('sockets', SOCKETS), ('rnic_log', RNIC_LOG),
                            ('recording', RECORDING), ('datagrams', DATAGRAMS)):
        folder = os.path.join(HERE, 'corpus', target)
        os.makedirs(folder, exist_ok=True)
        wrong += [(os.path.join(folder, name), data) for name, data in inputs.items() if not holds(os.path.join(folder, name), data)]
    for path, data in wrong:
        if checks:
            print('%s: not as make_corpus.py writes it' % os.path.relpath(path, HERE))
        else:
            with open(path, 'wb') as file:
                file.write(data)
    return 1 if checks and wrong else 0


sys.exit(main(sys.argv[1:] == ['--check']))
