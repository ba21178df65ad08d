#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""vipl-gen and vipl-cap over a virtual cable, in a network name space of their own, or on an emulated card.

    test_traffic.py BIN [--card | --dpdk] [--packets N]   N: how many packets go in the first case, which then is the only one
"""
import contextlib
import ctypes
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
LIMIT = 120 * float(os.environ.get('VIPL_TEST_TIMEOUT_SCALE', '1'))
HEAD = b'\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x12\x34'
MAC = '02:00:00:00:00:02' # that HEAD is for
FILL = random.Random(5).randbytes(4096)


def check(holds, what):
    if not holds:
        print('FAIL: ' + what)
        raise SystemExit(1)


def frame(number, size):
    return (HEAD + struct.pack('<I', number) + FILL[number % 2000:])[:size]


def size_of(number):
    return (60, 64, 101, 512, 1000, 1513, 1514)[number % 7]


def write_pcap(path, frames, order='<', gap_ns=10000):
    with open(path, 'wb') as file:
        file.write(struct.pack(order + 'IHHiIII', 0xa1b23c4d, 2, 4, 0, 0, 262144, 1))
        for number, data in enumerate(frames):
            at = 1700000000 * 10**9 + number * gap_ns
            file.write(struct.pack(order + 'IIII', at // 10**9, at % 10**9, len(data), len(data)) + data)


def write_pcapng(path, frames, order='>'):
    def block(kind, body):
        body += bytes(-len(body) % 4)
        return struct.pack(order + 'II', kind, len(body) + 12) + body + struct.pack(order + 'I', len(body) + 12)
    with open(path, 'wb') as file:
        file.write(block(0x0a0d0d0a, struct.pack(order + 'IHHq', 0x1a2b3c4d, 1, 0, -1)) + block(1, struct.pack(order + 'HHI', 1, 0, 0)))
        for number, data in enumerate(frames):
            file.write(block(6, struct.pack(order + 'IIIII', 0, 0, number * 10, len(data), len(data)) + data))


def packets_of(path):
    """(time, original length, bytes) of each packet of a capture, which is in this machine's byte order; its blocks are checked."""
    with open(path, 'rb') as file:
        data = file.read()
    at, kinds = 0, []
    while at < len(data):
        kind, length = struct.unpack_from('=II', data, at)
        check(length >= 12 and length % 4 == 0 and at + length <= len(data), 'a block of %s ends inside it' % path)
        check(struct.unpack_from('=I', data, at + length - 4)[0] == length, 'a block of %s has two lengths' % path)
        if kind == 6:
            _, high, low, kept, original = struct.unpack_from('=IIIII', data, at + 8)
            yield high << 32 | low, original, data[at + 28:at + 28 + kept]
        else:
            kinds.append(kind)
        at += length
    check(kinds == [0x0a0d0d0a, 1, 5], '%s has blocks %s' % (path, kinds))


class Card:
    """An adapter with a card of this test's own, which has the address that all frames are for."""

    def __init__(self, programs, folder, name, *options):
        self.socket = os.path.join(folder, name)
        rnicd = os.environ.get('VIPL_RNICD') or os.path.join(programs, '..', 'libexec', 'vipl-rnicd')
        with open(self.socket + '.err', 'wb') as errors:
            self.process = subprocess.Popen([rnicd, '--socket', self.socket, '--mtu', '1500', *options], stderr=errors)
        end = time.monotonic() + LIMIT
        while subprocess.run([rnicd, '--stats', '--socket', self.socket], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > end:
                with open(self.socket + '.err', encoding='utf-8') as errors:
                    check(False, 'vipl-rnicd %s does not run: %s' % (' '.join(options), errors.read()))
        self.port = 'rnic:socket:' + self.socket

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(LIMIT)


class Traffic:
    def __init__(self, programs, folder, gen_port, cap_port):
        self.programs = programs
        self.gen, self.cap = (os.path.join(programs, name) for name in ('vipl-gen', 'vipl-cap'))
        self.folder, self.gen_port, self.cap_port = folder, gen_port, cap_port
        self.interface = cap_port.split(':', 1)[1] if cap_port.startswith('packet') else cap_port

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_gen(self, name, *options, code=0):
        """The counters of vipl-gen, which sends a recording of the folder."""
        done = subprocess.run([self.gen, '--store', 'file:' + self.path(name), '--port', self.gen_port, '--json', *options],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False)
        check(done.returncode == code, 'vipl-gen %s: %d instead of %d: %s%s' % (' '.join(options), done.returncode, code, done.stdout, done.stderr))
        return json.loads(done.stdout.splitlines()[-1]) if done.stdout.startswith('{') else done.stderr

    def start_cap(self, name, *options):
        process = subprocess.Popen([self.cap, '--store', 'file:' + self.path(name), '--port', self.cap_port, '--json', *options],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = process.stderr.readline()
        if 'receiving' not in line:
            process.terminate()
            check(False, 'vipl-cap does not receive: %s%s' % (line, process.communicate(timeout=LIMIT)[1]))
        return process

    def end_cap(self, process, code=0, stop=False):
        if stop:
            process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=LIMIT / 2)
        except subprocess.TimeoutExpired:  # it waits for packets that do not come: its counters tell how many it has missed
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=LIMIT)
        check(process.returncode == code, 'vipl-cap: %d instead of %d: %s%s' % (process.returncode, code, out, err))
        return json.loads(out.splitlines()[-1])

    def run_cap_refused(self, *options):
        done = subprocess.run([self.cap, '-S', 'file:' + self.path('refused'), '-P', self.cap_port, *options], stderr=subprocess.PIPE, text=True,
                              timeout=LIMIT, check=False)
        check(done.returncode == 2 and not os.path.exists(self.path('refused')), 'vipl-cap %s: %d %s' % (options, done.returncode, done.stderr))
        return done.stderr

    def compare(self, name, frames, snaplen=65535):
        count, last = 0, 0
        for at, original, data in packets_of(self.path(name)):
            wanted = frames[count]
            check(original == len(wanted) and data == wanted[:snaplen], 'WRONG: packet %d of %s' % (count, name))
            check(at >= last, 'times of %s go back' % name)
            count, last = count + 1, at
        check(count == len(frames), 'WRONG: %s has %d packets instead of %d' % (name, count, len(frames)))

    def read_by_others(self, name, count):
        """Wireshark's programs read the file."""
        if shutil.which('capinfos') is None or shutil.which('tshark') is None:
            print('no capinfos and tshark here')
            return
        said = subprocess.run(['capinfos', '-T', '-m', '-r', '-c', self.path(name)], stdout=subprocess.PIPE, text=True, timeout=LIMIT, check=True).stdout
        check(said.strip().split(',')[-1].strip('"') == str(count), 'capinfos: ' + said)
        done = subprocess.run(['tshark', '-r', self.path(name), '-T', 'fields', '-e', 'frame.len', '-e', 'frame.interface_name', '-c', '1000'],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False)
        lines = done.stdout.splitlines()
        check(done.returncode == 0 and len(lines) == min(count, 1000) and self.interface.startswith(lines[0].split('\t')[1]), 'tshark: %s%s' % (done.stdout[:200], done.stderr))


def case_many(t, count):
    """None is lost, and order and bytes are the same, with fillers and without."""
    frames = [frame(i, size_of(i)) for i in range(count)]
    write_pcap(t.path('many.pcap'), frames)
    for name, options in (('many.pcapng', ()), ('compact.pcapng', ('--compact',))):
        cap = t.start_cap(name, '--count', str(count), '--bytes', '256M', *options)
        sent = t.run_gen('many.pcap', *t.pace)
        got = t.end_cap(cap)
        check(sent['sent'] == got['received'] == count and sent['lost'] == got['lost'] == 0, 'counters: %s %s' % (sent, got))
        check(sent['sent_bytes'] == got['received_bytes'] == sum(map(len, frames)), 'bytes: %s %s' % (sent, got))
        t.compare(name, frames)
        t.read_by_others(name, count)
        os.unlink(t.path(name))
        print('%s: %d packets at %.0f/s, late by at most %.1f ms' % (name, count, sent['packets_per_second'], sent['late_ns'] / 1e6))


def case_formats(t):
    """Recordings in both formats and byte orders; frames with VLAN tags, which the kernel takes out."""
    frames = [frame(i, size_of(i)) for i in range(300)]
    tagged = [f[:12] + struct.pack('>HH', 0x8100 if i % 2 or len(f) > 1510 else 0x88a8, 0x2005 + i) + f[12:] for i, f in enumerate(frames)]
    for write, order, packets in ((write_pcap, '>', frames), (write_pcapng, '<', frames), (write_pcapng, '>', tagged)):
        write(t.path('in'), packets, order)
        cap = t.start_cap('out', '--count', '300')
        check(t.run_gen('in')['sent'] == 300, 'not all are sent')
        t.end_cap(cap)
        t.compare('out', packets)


def case_paces(t):
    """How fast and how long; counters at an interval."""
    write_pcap(t.path('pace'), [frame(i, 1000) for i in range(100)], gap_ns=2000000)
    for options, sent, seconds in ((('--pps', '1K', '--loop', '0', '--duration', '0.5'), 500, 0.499), (('--rate', '8M', '--loop', '3'), 300, 0.299),
                                   (('--gap', '1M', '--loop', '0', '--count', '250'), 250, 0.249), (('--as-recorded', ), 100, 0.198),
                                   (('--multiplier', '0.5'), 100, 0.396), (('--multiplier', '4', '--burst', '10', '--loop', '2'), 200, 0.09)):
        counters = t.run_gen('pace', *options)
        check(counters['sent'] == sent and counters['whole'], '%s: %s' % (options, counters))
        check(counters['elapsed_ns'] / 1e9 >= seconds, '%s: too fast: %s' % (options, counters))
    done = subprocess.run([t.gen, '-S', 'file:' + t.path('pace'), '-P', t.gen_port, '--pps', '1000', '--loop', '5', '--stats', '0.1', '--json'],
                          stdout=subprocess.PIPE, text=True, timeout=LIMIT, check=True)
    kinds = [json.loads(line)['kind'] for line in done.stdout.splitlines()]
    check(kinds[-1] == 'end' and kinds[:-1] == ['interval'] * (len(kinds) - 1) and len(kinds) > 2, 'lines: %s' % kinds)


def case_index(t):
    write_pcap(t.path('rec'), [frame(i, 100) for i in range(1000)])
    index = ('--index', t.path('rec.index'))
    done = subprocess.run([t.gen, '--store', 'file:' + t.path('rec'), *index], timeout=LIMIT, check=False)
    check(done.returncode == 0 and os.path.getsize(t.path('rec.index')) == 128 + 16 * 1000, 'an index is written')
    cap = t.start_cap('out', '--count', '1000')
    check(t.run_gen('rec', *index, '--pps', '50K')['sent'] == 1000, 'by the index')
    t.end_cap(cap)
    t.compare('out', [frame(i, 100) for i in range(1000)])
    write_pcap(t.path('rec'), [frame(i, 100) for i in range(1001)])
    check('another recording' in t.run_gen('rec', *index, code=2), 'an index of an older recording is refused')


def case_ring(t):
    """A ring of files, a snaplen."""
    frames = [frame(i, 1000) for i in range(3000)]
    write_pcap(t.path('ring'), frames)
    cap = t.start_cap('ring.pcapng', '--ring', '2:300K', '--chunk', '64K', '--snaplen', '200', '--count', '3000')
    t.run_gen('ring', '--pps', '5K')
    got = t.end_cap(cap)
    check(got['truncated'] == 3000 and got['lost'] == 0, 'a snaplen that is asked for loses nothing: %s' % got)
    names = sorted(name for name in os.listdir(t.folder) if name.startswith('ring.0'))
    check(len(names) == 2, 'files of the ring: %s' % names)
    kept = [packet for name in names for packet in packets_of(t.path(name))]
    for (_, original, data), wanted in zip(reversed(kept), reversed(frames)):
        check(original == 1000 and data == wanted[:200], 'WRONG: a packet of the ring')


def case_loss(t):
    """3 where packets are lost, and the numbers add up."""
    write_pcap(t.path('short'), [frame(0, 60), frame(1, 10), frame(2, 60)])
    check(t.run_gen('short', code=3)['lost'] == 1, 'a packet that is too short')
    frames = [frame(i, 1514) for i in range(1000)]
    write_pcap(t.path('flood'), frames)
    cap = t.start_cap('flood.pcapng')
    cap.send_signal(signal.SIGSTOP)
    sent = t.run_gen('flood', '--loop', '150')
    cap.send_signal(signal.SIGCONT)
    got = t.end_cap(cap, code=3, stop=True)
    check(got['missed_by_port'] > 0 and got['received'] + got['lost'] == sent['sent'] == 150000, 'loss: %s %s' % (sent, got))
    t.compare('flood.pcapng', (frames * 150)[:got['received']])


def case_ends(t):
    """Signals."""
    write_pcap(t.path('end'), [frame(i, 100) for i in range(10)])
    cap = t.start_cap('end.pcapng')
    gen = subprocess.Popen([t.gen, '-S', 'file:' + t.path('end'), '-P', t.gen_port, '--loop', '0', '--pps', '1000', '--json', '--stats', '0.1'],
                           stdout=subprocess.PIPE, text=True)
    gen.stdout.readline()
    gen.send_signal(signal.SIGTERM)
    out = gen.communicate(timeout=LIMIT)[0]
    check(gen.returncode == 130 and not json.loads(out.splitlines()[-1])['whole'], 'a sender that is ended: %s' % out)
    got = t.end_cap(cap, stop=True)
    check(got['received'] == json.loads(out.splitlines()[-1])['sent'], 'all that was sent is in the capture')


def case_refused(t):
    """What cannot work is refused at the start, with the reason, and what is there stays as it is."""
    write_pcap(t.path('one'), [frame(0, 100)])
    write_pcap(t.path('large'), [frame(0, 1519)])
    for name, options, code, why in (('one', ('--memory', 'cmb:0000:00:01.0'), 2, 'the kernel copies the packets'),
                                     ('one', ('--memory', 'p2p:0000:00:01.0'), 2, 'the kernel copies the packets'), ('one', ('--store', 'nvme:ffff:1f:1f.7'), 2, 'no such PCI function'),
                                     ('one', ('--store', 'nvme:0,lba'), 2, 'is not nvme:ADDRESS'), ('one', ('--memory', 'disk', '--allow-ram'), 2, 'of no kind'),
                                     ('one', ('--pps', '1', '--rate', '1'), 2, 'only one of'), ('one', ('--pps', '0'), 2, 'wrong option or value'),
                                     ('one', ('--burst', '2'), 2, 'needs a rate'), ('one', ('--chunk', '65537'), 2, 'multiple of 4096'),
                                     ('large', (), 2, 'at most 1518'), ('gone', (), 1, 'No such file'),
                                     ('one', ('--port', 'packet:gone0'), 2, 'No such device')):
        said = t.run_gen(name, *options, code=code)
        check(why in said, '%s: %s' % (options, said))
    told = subprocess.run([t.gen, '-S', 'file:' + t.path('one'), '-P', 'packet:gen0', '-M', 'cmb:0000:00:01.0', '--allow-ram', '--explain'],
                          stdout=subprocess.PIPE, text=True, timeout=LIMIT, check=True).stdout
    check('ram, because' in told and 'packet:gen0' in told, told)
    before = open(t.path('one'), 'rb').read()
    told = subprocess.run([t.cap, '-S', 'file:' + t.path('one'), '-P', 'packet:cap0', '--explain'], stdout=subprocess.PIPE, text=True, timeout=LIMIT,
                          check=True).stdout
    check('CLOCK_REALTIME' in told and open(t.path('one'), 'rb').read() == before, 'an explanation leaves the store alone')
    for options in (('--ring', '3'), ('--ring', '0:1M'), ('--snaplen', '65401'), ('--compact', '-M', 'rnic')):
        done = subprocess.run([t.cap, '-S', 'file:' + t.path('one'), '-P', 'packet:cap0', *options], stderr=subprocess.PIPE, timeout=LIMIT, check=False)
        check(done.returncode == 2, 'vipl-cap %s: %d %s' % (options, done.returncode, done.stderr))
    check(open(t.path('one'), 'rb').read() == before, 'a capture that is refused leaves the store alone')


def case_card_memory(t):
    """Packets from the card's memory into the card's memory; what it is refused for."""
    frames = [frame(i, size_of(i)) for i in range(3000)]
    write_pcap(t.path('in'), frames)
    cap = t.start_cap('out', '--count', '9000', '--memory', 'rnic')
    sent = t.run_gen('in', '--memory', 'rnic', '--pps', '10K', '--loop', '3')
    got = t.end_cap(cap)
    check(sent['sent'] == got['received'] == 9000 and got['lost'] == 0, 'counters: %s %s' % (sent, got))
    t.compare('out', frames * 3)
    told = subprocess.run([t.gen, '-S', 'file:' + t.path('in'), '-P', t.gen_port, '-M', 'rnic', '--explain'], stdout=subprocess.PIPE, text=True,
                          timeout=LIMIT, check=True).stdout
    check('DRAM of the port' in told and 'launch times' in told and '02:00:00:00:00:02' in told, told)
    check('16777216 bytes' in t.run_gen('in', '-M', 'rnic', '-B', '64M', code=2), 'more memory than there is')
    told = subprocess.run([t.gen, '-S', 'file:' + t.path('in'), '-P', t.gen_port, '-M', 'rnic', '-B', '64M', '--allow-ram', '--explain'],
                          stdout=subprocess.PIPE, text=True, timeout=LIMIT, check=True).stdout
    check('ram, because' in told, told)
    check('compacts' in t.run_cap_refused('-M', 'rnic', '--compact'), 'the CPU leaves the memory of the card alone')


def case_card_rights(t):
    """A function that may not, a card that is not there, one that ends."""
    write_pcap(t.path('in'), [frame(i, 1000) for i in range(100)])
    with Card(t.programs, t.folder, 'plain') as plain:
        check('--raw' in t.run_gen('in', '--port', plain.port, code=2), 'no function of the card has the right')
    check('No such file' in t.run_gen('in', '--port', 'rnic:socket:' + t.path('nowhere'), code=1), 'no adapter')
    check('no such card' in t.run_gen('in', '--port', 'rnic:nowhere', code=2), 'no such way')
    with Card(t.programs, t.folder, 'brief', '--raw', '0,1', '--mac', MAC) as brief:
        cap = t.start_cap('brief.pcapng', '--port', brief.port)
        gen = subprocess.Popen([t.gen, '-S', 'file:' + t.path('in'), '-P', brief.port, '--loop', '0', '--pps', '1000', '--json', '--stats', '0.1'],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        gen.stdout.readline()
        gen.stdout.readline()
        brief.process.kill()
        err = gen.communicate(timeout=LIMIT)[1]
        check(gen.returncode == 1 and 'port' in err, 'a sender whose card ends: %d %s' % (gen.returncode, err))
        check(t.end_cap(cap, code=1)['received'] > 0, 'a capture whose card ends')
        check(len(list(packets_of(t.path('brief.pcapng')))) > 0, 'what had arrived is written')


def case_card_wire(t):
    """A wire that has no room for what the sender wants, nor for one packet more: the sender waits."""
    frames = [frame(i, 1514) for i in range(1000)]
    write_pcap(t.path('in'), frames)
    with Card(t.programs, t.folder, 'narrow', '--raw', '0,1', '--mac', MAC, '--impair', 'rate=300M,queue=16K') as narrow:
        cap = t.start_cap('narrow.pcapng', '--port', narrow.port, '--count', '20000')
        sent = t.run_gen('in', '--port', narrow.port, '--loop', '20')
        got = t.end_cap(cap)
        check(sent['sent'] == got['received'] == 20000 and sent['lost'] == got['lost'] == 0, 'counters: %s %s' % (sent, got))
        check(sent['no_slot'] > 0, 'the port was never full: %s' % sent)
        t.compare('narrow.pcapng', frames * 20)


def case_inproc(t):
    """The card in the program has no wire, and keeps the rate."""
    write_pcap(t.path('in'), [frame(i, 1000) for i in range(100)])
    sent = t.run_gen('in', '--port', 'rnic:inproc', '--memory', 'rnic', '--gap', '1M', '--loop', '3')
    check(sent['sent'] == 300 and sent['elapsed_ns'] >= 299000000 and sent['lost'] == 0, 'in process: %s' % sent)
    done = subprocess.run([t.gen, '-S', 'file:' + t.path('in'), '-P', 'rnic:inproc'], env=dict(os.environ, VIPL_RNIC_IMPAIR='rate=nothing'),
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False)
    check(done.returncode == 0 and 'VIPL_RNIC_IMPAIR' in done.stderr, 'a setting that is wrong: %s' % done.stderr)


def case_wires(t):
    """Cards on the two ends of the cable: frames of every type, with tags, out of a card and into one."""
    frames = [frame(i, size_of(i)) for i in range(300)]
    frames = [f[:12] + (struct.pack('>HH', 0x8100 if i % 2 or len(f) > 1510 else 0x88a8, 0x2005 + i) + f[12:] if i % 3 else struct.pack('>H', 0x0800 + i) + f[14:])
              for i, f in enumerate(frames)]
    write_pcap(t.path('in'), frames)
    for gen, cap in ((True, False), (False, True)):
        with Card(t.programs, t.folder, 'wired', '--raw', '0', '--wire', t.gen_port if gen else t.cap_port) as card:
            capture = t.start_cap('out', '--count', '300', '--port', card.port if cap else t.cap_port)
            sent = t.run_gen('in', '--pps', '3K', '--port', card.port if gen else t.gen_port)
            check(sent['sent'] == 300, 'counters: %s' % sent)
            t.end_cap(capture)
            t.compare('out', frames)


def case_both_ways(t):
    """A driver of DPDK at one end of the cable, the kernel at the other: bytes, order, tags."""
    frames = [frame(i, size_of(i)) for i in range(300)]
    frames = [f[:12] + struct.pack('>HH', 0x8100, 0x2005 + i) + f[12:] if i % 3 else f for i, f in enumerate(frames)]
    write_pcap(t.path('in'), frames)
    for gen, cap in ((t.gen_port, 'packet:cap0'), ('packet:gen0', t.cap_port)):
        capture = t.start_cap('out', '--count', '300', '--port', cap)
        sent = t.run_gen('in', '--port', gen, '--pps', '3K')
        check(sent['sent'] == 300, '%s to %s: %s' % (gen, cap, sent))
        t.end_cap(capture)
        t.compare('out', frames)


def case_slots(t):
    """More packets than there are slots, by a device that has always one."""
    cap = t.start_cap('null', '--port', 'dpdk:net_null0,size=64', '--count', '50000')
    check(t.end_cap(cap)['received'] == 50000 and [len(data) for _, _, data in packets_of(t.path('null'))] == [64] * 50000, 'packets of a device that has them')
    cap = t.start_cap('endless', '--port', 'dpdk:net_null0,size=64')
    t.end_cap(cap, stop=True)


def case_dpdk_refused(t):
    """What is no device, a memory that the CPU is to leave alone, slots that are too small; no plug-in, and one of another version."""
    write_pcap(t.path('one'), [frame(0, 100)])
    for port, why in (('dpdk:0', 'neither the address'), ('dpdk:ffff:1f:1f.6', 'no driver of DPDK'), ('dpdk:net_gone0', 'no driver of DPDK'),
                      ('dpdk:net_af_packet0,iface=gone0', 'no driver of DPDK')):
        check(why in t.run_gen('one', '--port', port, code=2), port)
    check('copied by the CPU' in t.run_gen('one', '--memory', 'cmb:0000:00:01.0', code=2), 'memory of a device')
    check('whole packets' in t.run_cap_refused('--snaplen', '200'), 'a snaplen')
    told = subprocess.run([t.gen, '-S', 'file:' + t.path('one'), '-P', t.gen_port, '--explain'], stdout=subprocess.PIPE, text=True, timeout=LIMIT, check=True).stdout
    check('net_af_packet of DPDK' in told, told)
    for plugin, why in ((t.path('nowhere'), 'there is no plug-in'), ('libm.so.6', 'no plug-in of this version')):
        done = subprocess.run([t.gen, '-S', 'file:' + t.path('one'), '-P', t.gen_port], env=dict(os.environ, VIPL_DM_DPDK=plugin),
                              stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False)
        check(done.returncode == 2 and why in done.stderr, '%s: %d %s' % (plugin, done.returncode, done.stderr))


def points_of(script):
    """The samples of a script for gnuplot: time, packets/s, Mb/s, lost packets/s."""
    return [[float(word) for word in line.split()] for line in script.split('<< EOD\n')[1].split('EOD\n')[0].splitlines()]


def case_plot(t):
    """A picture of the rate: what gnuplot is told, what it draws, and what is said without it."""
    write_pcap(t.path('plot'), [frame(i, 1000) for i in range(100)])
    fake, picture = t.path('fake'), t.path("it's.svg")
    os.mkdir(fake)
    with open(os.path.join(fake, 'gnuplot'), 'w', encoding='ascii') as file:
        file.write('#!/bin/sh\nexec /bin/cat >"$SCRIPT"\n')
    os.chmod(os.path.join(fake, 'gnuplot'), 0o755)
    with open(os.path.join(fake, 'bad'), 'w', encoding='ascii') as file:
        file.write('#!/bin/sh\nexit 1\n')
    words = [t.gen, '-S', 'file:' + t.path('plot'), '-P', 'packet:gen0', '--pps', '1000', '--loop', '6', '--json', '--plot']

    def send(path, name=picture, code=0):
        done = subprocess.run(words + [name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False,
                              env=dict(os.environ, PATH=path, SCRIPT=t.path('script')))
        check(done.returncode == code, '--plot %s: %d instead of %d: %s' % (name, done.returncode, code, done.stderr))
        return done
    check('gnuplot-nox' in send(t.folder, code=2).stderr, 'there is no gnuplot')
    check('.svg' in send(fake, t.path('plot.gif'), code=2).stderr, 'a picture of another kind')
    counters = json.loads(send(fake).stdout)
    with open(t.path('script'), encoding='utf-8') as file:
        script = file.read()
    check("set output '%s'" % picture.replace("'", "''") in script and script.startswith('set terminal svg '), 'the name: ' + script[:200])
    points = points_of(script)
    check(len(points) > 5 and all(a[0] < b[0] for a, b in zip(points, points[1:])), 'points: %r' % points)
    ends = [0.0]
    for point in points:
        ends.append(2 * point[0] - ends[-1])
    sent = sum(point[1] * (b - a) for point, a, b in zip(points, ends, ends[1:]))
    check(abs(sent - 600) < 1 and counters['sent'] == 600, 'what is under the curve is what was sent: %r' % sent)
    check(all(abs(point[2] - point[1] * 8e-3) < 0.1 and point[3] == 0 for point in points), 'bits and losses: %r' % points)
    os.replace(os.path.join(fake, 'bad'), os.path.join(fake, 'gnuplot'))
    os.chmod(os.path.join(fake, 'gnuplot'), 0o755)
    check('has failed' in send(fake, code=1).stderr, 'a gnuplot that fails')
    check(not os.path.exists(picture), 'no picture yet')
    cap = t.start_cap('plot.pcapng', '--count', '600', '--plot', t.path('cap.svg')) if shutil.which('gnuplot') is not None else None
    if cap is not None:
        send(os.environ['PATH'])
        t.end_cap(cap)
        for name in (picture, t.path('cap.svg')):
            with open(name, encoding='utf-8') as file:
                drawn = file.read()
            check('packets/s' in drawn and 'Mb/s' in drawn and drawn.rstrip().endswith('</svg>'), 'the picture: ' + drawn[:200])


def join_cable():
    """A name space with two ends of a cable, on which the kernel says nothing by itself. False: this user may not."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWNET) != 0:
        if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
            return False
        for name, text in (('setgroups', 'deny'), ('uid_map', '0 %d 1' % user), ('gid_map', '0 %d 1' % group)):
            with open('/proc/self/' + name, 'w', encoding='ascii') as file:
                file.write(text)
    if os.path.exists('/proc/sys/net/ipv6/conf/default/disable_ipv6'):
        with open('/proc/sys/net/ipv6/conf/default/disable_ipv6', 'w', encoding='ascii') as file:
            file.write('1')
    for words in ('link add gen0 type veth peer name cap0', 'link set gen0 up', 'link set cap0 up'):
        if subprocess.run(['ip', *words.split()], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            return False
    end = time.monotonic() + LIMIT
    for name in 'gen0', 'cap0':
        while not is_sending(name):
            check(time.monotonic() < end, 'the cable is not up')
    return True


def is_sending(name):
    """LOWER_UP is not enough: what is sent before the system has given the interface its queues is lost, and nobody says so."""
    words = subprocess.run(['ip', '-o', 'link', 'show', name], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    return words[words.index('state') + 1] == 'UP' and words[words.index('qdisc') + 1] != 'noop'


def on_cable(programs, folder, count):
    """None: this user may not."""
    if shutil.which('ip') is None or not join_cable():
        return None
    traffic = Traffic(programs, folder, 'packet:gen0', 'packet:cap0')
    traffic.pace = ('--pps', '40K')
    case_many(traffic, count)
    cases = [case_formats, case_paces, case_index, case_ring, case_loss, case_ends, case_refused, case_plot]
    if os.path.exists(os.path.join(programs, '..', 'libexec', 'vipl-rnicd')):
        cases.append(case_wires)
    return traffic, cases


def on_drivers(programs, folder, count):
    """The same cable, by drivers of DPDK. None: this user may not."""
    if shutil.which('ip') is None or not join_cable():
        return None
    os.environ['VIPL_DM_DPDK'] = os.path.join(programs, '..', 'libexec', 'vipl-dm-dpdk.so')
    # The kernel's ring has room for all packets: what it drops, nobody counts.
    traffic = Traffic(programs, folder, 'dpdk:net_af_packet0,iface=gen0', 'dpdk:net_af_packet1,iface=cap0,framecnt=32768')
    traffic.interface = traffic.cap_port
    traffic.pace = ('--pps', '20K')
    case_many(traffic, count)
    return traffic, [case_both_ways, case_paces, case_ends, case_slots, case_dpdk_refused]


def on_card(programs, folder, count, card):
    """A million packets go as fast as the wire lets them; nothing but the sender's waiting keeps them from being lost."""
    traffic = Traffic(programs, folder, card.port, card.port)
    traffic.pace = ('--pps', '40K') if '--packets' not in sys.argv else ()
    case_many(traffic, count)
    return traffic, [case_formats, case_paces, case_ring, case_loss, case_ends, case_card_memory, case_card_rights, case_card_wire, case_inproc]


def folder_for(count):
    """Where the recordings are. A million packets have 2 GB, and would be lost if a disk that others write to stood still for three seconds: they are
    in memory where there is so much."""
    there = os.statvfs('/dev/shm') if count > 100000 and os.path.isdir('/dev/shm') else None
    return '/dev/shm' if there and there.f_bavail * there.f_frsize > 8 << 30 else None


def main():
    count = int(sys.argv[sys.argv.index('--packets') + 1]) if '--packets' in sys.argv else 20000
    programs = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(dir=folder_for(count)) as folder, contextlib.ExitStack() as stack:
        if '--card' in sys.argv:
            wire = ('--impair', 'rate=200M,queue=64K') if '--packets' in sys.argv else ()
            found = on_card(programs, folder, count, stack.enter_context(Card(programs, folder, 'card', '--raw', '0,1', '--mac', MAC, *wire)))
        elif '--dpdk' in sys.argv:
            found = on_drivers(programs, folder, count)
        else:
            found = on_cable(programs, folder, count)
        if found is None:
            print('cannot run: it takes ip, and the right to make network name spaces and veth')
            return 1 if os.environ.get('CI') == 'true' else 77
        if '--packets' not in sys.argv:
            for case in found[1]:
                case(found[0])
                print(case.__name__)
    return 0


sys.exit(main())
