# SPDX-License-Identifier: MIT
"""A card that was recorded and saved on this machine's CPU goes on on another one, of the other byte order perhaps, and back.

    rnic_saved.py NATIVE-BIN BIN EMULATOR...
"""
import os
import signal
import subprocess
import sys
import tempfile
import time

LIMIT = 120 * float(os.environ.get('VIPL_TEST_TIMEOUT_SCALE', '1'))
native, other, emulator = sys.argv[1], sys.argv[2], sys.argv[3:]


def check(holds, what):
    if not holds:
        print('FAIL: ' + what)
        raise SystemExit(1)


def replay(is_native, log, *options):
    command = ([] if is_native else emulator) + [os.path.join(native if is_native else other, 'vipl-rnic-log'), '--replay', *options, log]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT, check=False)
    check(done.returncode == 0 and 'no difference' in done.stdout, '%s: %d: %s' % (' '.join(command), done.returncode, done.stdout))
    return int(done.stdout.split(': ')[1].split()[0])


def record(folder):
    """The log of a card over which pings went, by windows and by DMA, and single stores, with some frames lost."""
    rnicd, socket, log = os.path.join(native, '..', 'libexec', 'vipl-rnicd'), os.path.join(folder, 'card'), os.path.join(folder, 'card.pcapng')
    with subprocess.Popen([rnicd, '--socket', socket, '--record', log, '--impair', 'seed=3,loss=0.1', '--fault', 'seed=1,completion_late=0.1']) as adapter:
        end = time.monotonic() + LIMIT
        while subprocess.run([rnicd, '--stats', '--socket', socket], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode != 0:
            check(adapter.poll() is None and time.monotonic() < end, 'the adapter does not serve')
        for window, size in (('464', '300'), ('0', '20000')):
            subprocess.run([os.path.join(native, 'vipl-ping'), '--pair', '--device', 'rnic:socket:' + socket, '--count', '20', '--size', size, '--quiet'],
                           env=dict(os.environ, VIPL_RNIC_BOTF=window), timeout=LIMIT, check=True)
        # Templates, and single stores of the other CPU, whose bytes arrive as they lay there.
        subprocess.run([*emulator, os.path.join(other, 'vipl-test-stores'), 'socket:' + socket, '500'], timeout=LIMIT, check=True)
        adapter.send_signal(signal.SIGTERM)
    return log


with tempfile.TemporaryDirectory() as folder:
    log, saved = record(folder), os.path.join(folder, 'saved')
    count = replay(True, log)
    check(replay(False, log) == count, 'the whole log on the other CPU')
    for part in (1, 3, 5, 6, 7):
        for is_native in (True, False):
            replay(is_native, log, '--until', '@%d' % (count * part // 8), '--save', saved)
            check(replay(not is_native, log, '--load', saved) == count, 'it goes on to the end')
print('%d records, saved in 10 places' % count)
