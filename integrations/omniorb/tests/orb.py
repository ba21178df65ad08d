#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs of omniORB over the transport giop:vipl.

    orb.py CASE FOLDER PLUGIN [COUNT]    FOLDER has the server and the client, PLUGIN is the transport

A case passes if it ends. Servers and clients are programs that do not know which transport they use: it is preloaded, and the ORB's options
come from the environment.
"""
import contextlib
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

LIMIT = 60  # seconds for what takes one, on a machine that is busy
RULE = '* vipl,unix,tcp'


class Orb:
    """Where the programs are, and a folder for their files."""

    def __init__(self, programs, plugin, count):
        self.programs, self.plugin, self.count = programs, plugin, count
        self.folder = tempfile.mkdtemp(prefix='vipl-orb-')
        self.serial = 0

    def environment(self, plugin=True, **options):
        """The options are the ORB's."""
        environment = dict(os.environ, ORBgiopMaxMsgSize='30000000', ORBclientTransportRule=RULE, ORBserverTransportRule=RULE)
        environment.update({'ORB' + name: str(value) for name, value in options.items()})
        if plugin:
            environment['LD_PRELOAD'] = self.plugin
        return environment

    def file(self, name):
        self.serial += 1
        return os.path.join(self.folder, f'{name}.{self.serial}')

    def start(self, words, **options):
        """A process that writes into a file, `output`: nothing has to read while it runs."""
        output = self.file('output')
        with open(output, 'wb') as file:
            process = subprocess.Popen(words, env=self.environment(**options), stdout=file, stderr=subprocess.STDOUT)
        process.output = output
        return process

    @contextlib.contextmanager
    def server(self, endpoints=('giop:vipl:',), times=1, **options):
        """A server, and the file of its object reference; it is killed at the end, if it has not ended."""
        file = self.file('reference')
        process = self.start([os.path.join(self.programs, 'omnivipl-server'), file, str(times), *endpoints_of(endpoints)], **options)
        try:
            wait_for(lambda: os.path.exists(file) or process.poll() is not None, 'the server')
            assert process.poll() is None, output_of(process)
            yield process, file
        finally:
            process.kill()
            process.wait()

    def begin(self, file, *words, times=1, **options):
        return self.start([os.path.join(self.programs, 'omnivipl-client'), file, str(times), *map(str, words)], **options)

    def call(self, file, *words, code=0, **options):
        """What a client prints that ends with a code."""
        return end_of(self.begin(file, *words, **options), code)


def endpoints_of(endpoints):
    return [word for endpoint in endpoints for word in ('-ORBendPoint', endpoint)]


def output_of(process):
    with open(process.output, encoding='utf-8', errors='replace') as file:
        return file.read()


def end_of(process, code=0):
    """What a process has written when it has ended with a code."""
    try:
        process.wait(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise AssertionError(f'HUNG: {process.args}\n{output_of(process)}') from None
    text = output_of(process)
    assert process.returncode == code, f'{process.args} ended with {process.returncode}, not {code}:\n{text}'
    return text


def wait_for(condition, what):
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, f'{what}: nothing in {LIMIT} s'
        time.sleep(0.005)


def line_of(process, text):
    """Waits until a process has written a line with a text in it."""
    wait_for(lambda: text in output_of(process) or process.poll() is not None, text)
    for line in output_of(process).splitlines():
        if text in line:
            return line
    raise AssertionError(f'{process.args} has not said: {text}\n{output_of(process)}')


def stop(orb, process, file, **options):
    """An orderly end."""
    orb.call(file, 'stop', **options)
    assert 'server: ended' in end_of(process)


# --- the cases ---

TCP, VIPL = 'giop:tcp:127.0.0.1:', 'giop:vipl:'


def case_contents(orb):
    """Each kind of client at each kind of server uses the transport that both have, and the bytes are right."""
    for endpoints in ((VIPL,), (VIPL, TCP), (TCP, VIPL), (TCP,)):
        with orb.server(endpoints) as (process, file):
            expected = 'giop:vipl:' if VIPL in endpoints else 'giop:tcp:'
            text = orb.call(file, 'caller', 'contents', 'many', 300)
            assert f'caller {expected}' in text, text
            if TCP in endpoints:
                text = orb.call(file, 'caller', 'contents', plugin=False)
                assert 'caller giop:tcp:' in text, text
            else:
                text = orb.call(file, 'null', plugin=False, code=1)
                assert 'TRANSIENT' in text, text
            stop(orb, process, file)


def case_names(orb):
    """The naming service, and its command."""
    logs = orb.file('names')
    os.mkdir(logs)
    with orb.server((TCP, VIPL)) as (process, file), open(file, encoding='ascii') as reference:
        names = orb.start(['omniNames', '-start', '2809', '-logdir', logs, '-ORBendPoint', VIPL])
        try:
            root = re.search(r'IOR:[0-9a-f]+', line_of(names, 'Root context is')).group()
            words = ['nameclt', '-ORBInitRef', f'NameService={root}', '-ORBtraceLevel', '25']
            text = end_of(orb.start([*words, 'bind', 'sample.object', reference.read()]))
            assert 'giop:vipl:loopback' in text, text
            resolved = end_of(orb.start([*words[:3], 'resolve', 'sample.object']))
            with open(orb.file('resolved'), 'w', encoding='ascii') as copy:
                copy.write(re.search(r'IOR:[0-9a-f]+', resolved).group())
            assert 'caller giop:vipl:' in orb.call(copy.name, 'caller', 'contents')
            assert 'sample.object' in end_of(orb.start([*words[:3], 'list']))
        finally:
            names.kill()
            names.wait()
        stop(orb, process, file)


def case_kill_server(orb):
    """A server is killed in the middle of calls: the client gets an exception."""
    for _ in range(orb.count):
        with orb.server() as (process, file):
            client = orb.begin(file, 'until-gone')
            line_of(client, 'calling')
            time.sleep(0.03 * (os.urandom(1)[0] / 256)) # at any moment of a call
            process.kill()
            text = end_of(client)
            assert 'gone COMM_FAILURE' in text or 'gone TRANSIENT' in text, text


def case_kill_client(orb):
    """Clients are killed in the middle of calls: the server serves others."""
    with orb.server() as (process, file):
        for _ in range(orb.count):
            client = orb.begin(file, 'until-gone')
            line_of(client, 'calling')
            time.sleep(0.03 * (os.urandom(1)[0] / 256))
            client.kill()
            client.wait()
            orb.call(file, 'null')
        orb.call(file, 'contents')
        stop(orb, process, file)


def case_deadline(orb):
    """A call that takes longer than the client's time limit ends then, and further calls succeed."""
    with orb.server() as (process, file):
        begin = time.monotonic()
        text = orb.call(file, 'slow', 5000, clientCallTimeOutPeriod=500, code=1)
        assert 'TIMEOUT' in text or 'TRANSIENT_CallTimedout' in text, text
        assert time.monotonic() - begin < 4, 'the call has waited for its reply'
        orb.call(file, 'contents', clientCallTimeOutPeriod=LIMIT * 1000)
        os.kill(process.pid, signal.SIGSTOP) # what it does not read, the peer cannot send
        text = orb.call(file, 'contents', clientCallTimeOutPeriod=500, code=1)
        assert 'TIMEOUT' in text or 'TRANSIENT' in text, text
        os.kill(process.pid, signal.SIGCONT)
        orb.call(file, 'contents')
        stop(orb, process, file)


def case_call_back(orb):
    """The server calls back on the client's connection, or makes one to the client's own endpoint."""
    rule = '* vipl,tcp,bidir'
    with orb.server(acceptBiDirectionalGIOP=1, serverTransportRule=rule, traceLevel=25) as (process, file):
        # By omniORB's protocol, a client that offers its connection has an endpoint of TCP.
        orb.call(file, 'call-back', 'contents', offerBiDirectionalGIOP=1, clientTransportRule=rule, endPoint=TCP)
        orb.call(file, 'stop')
        text = end_of(process)
        assert re.search(r'Accepted request from giop:vipl:\S+ to switch to bidirectional', text), text
        assert 'Client opened connection' not in text, text
    with orb.server() as (process, file):
        orb.call(file, 'call-back', 'contents', endPoint=VIPL)
        stop(orb, process, file)


def case_pool(orb):
    """A server with a pool of threads, and calls that overtake a slow one on their connection."""
    for options in ({}, {'connectionWatchImmediate': 1}, {'maxServerThreadPoolSize': 2}):
        with orb.server(threadPerConnectionPolicy=0, **options) as (process, file):
            clients = [orb.begin(file, 'threads', 4, 'many', 200, 'contents') for _ in range(4)]
            for client in clients:
                end_of(client)
            if options != {'maxServerThreadPoolSize': 2}:
                orb.call(file, 'overtake', oneCallPerConnection=0, maxGIOPConnectionPerServer=1)
            stop(orb, process, file)


def case_overtake(orb):
    """With a thread for each connection, calls overtake a slow one on their connection."""
    for options in ({}, {'connectionWatchImmediate': 1}):
        with orb.server(**options) as (process, file):
            for _ in range(2):
                orb.call(file, 'overtake', 'many', 100, 'overtake', oneCallPerConnection=0, maxGIOPConnectionPerServer=1)
            orb.call(file, 'threads', 8, oneCallPerConnection=0, maxGIOPConnectionPerServer=2)
            stop(orb, process, file)


def case_dead_address(orb):
    """Nothing listens at the first address of a reference: the call goes to the next one."""
    with socket.create_server(('127.0.0.1', 0)) as free:
        tcp = f'giop:tcp:127.0.0.1:{free.getsockname()[1]}'
    with orb.server(('giop:vipl::dead', tcp)) as (process, file):
        assert 'caller giop:vipl:' in orb.call(file, 'caller')
        stop(orb, process, file)
        with orb.server((tcp,)) as (other, _):
            assert 'caller giop:tcp:' in orb.call(file, 'caller')
            stop(orb, other, file)
        begin = time.monotonic()
        assert 'TRANSIENT' in orb.call(file, 'null', code=1)
        assert time.monotonic() - begin < 20, 'an address where nothing listens is waited for'


def case_late(orb):
    """A server that is stopped takes no connection: the time limit of the call ends the wait, and the next call succeeds."""
    with orb.server() as (process, file):
        os.kill(process.pid, signal.SIGSTOP)
        for options in ({'clientCallTimeOutPeriod': 300}, {'clientConnectTimeOutPeriod': 300}):
            begin = time.monotonic()
            text = orb.call(file, 'null', code=1, **options)
            assert 'TIMEOUT' in text or 'TRANSIENT' in text, text
            assert time.monotonic() - begin < 10, 'a connection is waited for beyond the time limit'
        client = orb.begin(file, 'contents')
        os.kill(process.pid, signal.SIGCONT)
        end_of(client)
        stop(orb, process, file)


def case_close(orb):
    """A server ends in order while a client has an idle connection: the client's next call goes to the server's successor."""
    endpoints = ('giop:vipl::successor',)
    with orb.server(endpoints) as (process, file):
        client = orb.begin(file, 'null', 'pause', 'contents')
        line_of(client, 'paused')
        stop(orb, process, file)
        with orb.server(endpoints) as (other, _):
            open(file + '.go', 'w', encoding='ascii').close()
            end_of(client)
            stop(orb, other, file)


def case_fragments(orb):
    """Messages in fragments, and one that is longer than the server allows, which ends its call and no other one."""
    for options in ({'giopBufferSize': 1024}, {'giopBufferSize': 100000, 'threadPerConnectionPolicy': 0}):
        with orb.server(**options) as (process, file):
            orb.call(file, 'contents', 'many', 100, **options)
            orb.call(file, 'contents', giopBufferSize=3000)
            stop(orb, process, file)
    with orb.server(giopMaxMsgSize=20000) as (process, file):
        text = orb.call(file, 'null', 'put', code=1)
        assert re.search('MARSHAL|COMM_FAILURE|TRANSIENT', text), text
        orb.call(file, 'null')
        stop(orb, process, file)


def case_big_endian(orb):
    """A peer of the other byte order is answered: no byte of a message is changed on the way."""
    with orb.server(('giop:vipl::victim',)) as (process, file):
        for order in ('big-endian', 'little-endian'):
            text = end_of(orb.start([os.path.join(orb.programs, 'omnivipl-hostile'), 'victim', order], plugin=False))
            assert 'the server has not the object of request 16909060' in text, text
        stop(orb, process, file)


def case_again(orb):
    """ORBs are destroyed and made again, in both processes."""
    with orb.server((VIPL, TCP), times=4) as (process, file):
        for i in range(4):
            wait_for(lambda: os.path.exists(file), 'the next ORB')
            copy = shutil.copy(file, f'{file}.{i}')
            os.unlink(file)
            orb.call(copy, 'contents', times=10)
            orb.call(copy, 'stop')
        assert 'server: ended' in end_of(process)


def case_exit(orb):
    """What a client has sent arrives, though it exits at once and without an end of its ORB."""
    with orb.server() as (process, file):
        for i in range(1, 6):
            orb.call(file, 'count', 1000, 'exit', 0)
            wait_for(lambda: f'counted {i * 1000}\n' in orb.call(file, 'counted'), 'one-way calls before an exit')
        stop(orb, process, file)


def case_fork(orb):
    """A child of the server does not keep connections open, and one of the client's has connections of its own."""
    with orb.server() as (process, file):
        client = orb.begin(file, 'fork-server', 1000 * LIMIT, 'until-gone')
        line_of(client, 'calling')
        process.kill() # its child lives on
        assert 'gone' in end_of(client)
    with orb.server() as (process, file):
        text = orb.call(file, 'fork')
        assert 'child 0' in text or 'child 3' in text, text
        stop(orb, process, file)


def case_connections(orb):
    """More connections than there are NIC handles for."""
    with orb.server() as (process, file):
        clients = [orb.begin(file, 'at-once', 50, 'threads', 10, maxGIOPConnectionPerServer=50) for _ in range(3)]
        for client in clients:
            end_of(client)
        stop(orb, process, file)


def case_at_once(orb):
    """Many connections at once, each with a thread that waits, by processes that have no more descriptors than omniORB needs over TCP."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, most))
    with orb.server() as (process, file):
        for clients in (1, 4):
            each = orb.count // clients
            processes = [orb.begin(file, 'meet', each, maxGIOPConnectionPerServer=each) for _ in range(clients)]
            for client in processes:
                end_of(client)
        stop(orb, process, file)


def case_idle(orb):
    """Processes with a connection that is idle use no CPU; the ORB closes it in time, and the next call makes another one."""
    options = {'scanGranularity': 1, 'inConScanPeriod': 4, 'outConScanPeriod': 4}
    with orb.server(**options) as (process, file):
        client = orb.begin(file, 'null', 'sleep', 3000, 'sleep', 5000, 'contents', **options)
        time.sleep(2)
        before = cpu_ticks(process.pid) + cpu_ticks(client.pid)
        time.sleep(1)
        used = cpu_ticks(process.pid) + cpu_ticks(client.pid) - before
        assert used <= 2, f'{used} ticks of CPU in a second'
        end_of(client)
        stop(orb, process, file)


def cpu_ticks(pid):
    with open(f'/proc/{pid}/stat', encoding='ascii') as stat:
        fields = stat.read().rsplit(')', 1)[1].split()
    return int(fields[11]) + int(fields[12])


def case_exports(orb):
    """Programs see nothing of the library's own copy of VIPL."""
    text = subprocess.run(['nm', '-D', '--defined-only', orb.plugin], check=True, capture_output=True, text=True).stdout
    names = {line.split()[-1] for line in text.splitlines()}
    assert names == set(), names


def case_hostile(orb):
    """Peers that do not speak the protocol lose their own connection; others are served meanwhile and afterwards."""
    hostile = os.path.join(orb.programs, 'omnivipl-hostile')
    for options in ({}, {'threadPerConnectionPolicy': 0}):
        with orb.server(('giop:vipl::victim',), **options) as (process, file):
            silent = orb.start([hostile, 'victim', 'silent'], plugin=False)
            line_of(silent, 'connected')
            for what in ('nonsense', 'version', 'giop', 'credits'):
                text = end_of(orb.start([hostile, 'victim', what], plugin=False))
                assert 'the server has ended the connection' in text, text
                orb.call(file, 'contents')
            assert silent.poll() is None
            silent.kill()
            silent.wait()
            orb.call(file, 'contents')
            stop(orb, process, file)


def case_device(orb):
    """Another device, and one that there is not."""
    with orb.server(('giop:vipl:tcp:127.0.0.1:over-tcp',)) as (process, file):
        text = orb.call(file, 'caller', 'contents', viplDevice='tcp:127.0.0.1')
        assert 'caller giop:vipl:tcp:' in text, text
        stop(orb, process, file, viplDevice='tcp:127.0.0.1')
    server = os.path.join(orb.programs, 'omnivipl-server')
    text = end_of(orb.start([server, orb.file('none'), '-ORBendPoint', 'giop:vipl:nonsense:']), 1)
    assert 'the device nonsense does not open' in text and 'INITIALIZE' in text, text


def main(case, programs, plugin, count='5'):
    orb = Orb(programs, plugin, int(count))
    try:
        globals()[f'case_{case}'](orb)
    except AssertionError as failure:
        print(failure)
        return 1
    finally:
        shutil.rmtree(orb.folder)
    return 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
