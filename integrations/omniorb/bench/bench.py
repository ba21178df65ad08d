#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Calls of omniORB over TCP, over Unix sockets and over VIPL, as a table of medians, means and 99th percentiles in microseconds.

    bench.py FOLDER PLUGIN [--rounds N] [--calls N] [--spin US]     FOLDER has the server and the client, PLUGIN is the transport

Each round measures all transports, one after the other, with a server and a client of its own; the figures are medians of the rounds. VIPL is
measured twice: with threads that sleep at once when they wait, and with threads that poll before, as long as --spin says, or the library does.
"""
import argparse
import os
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'tests'))
import orb  # noqa: E402

CALLS = ('null', 'echo 1,024 B', 'put 64 KiB', 'put 1 MiB', 'echo 1 MiB')
FIGURES = ('median', 'mean', 'p99')


def measure(programs, endpoint, plugin, calls):
    """{call: (median, mean, p99)} of one server and one client."""
    with programs.server((endpoint,), plugin=plugin) as (process, file):
        lines = programs.call(file, 'bench', calls, plugin=plugin).splitlines()
        orb.stop(programs, process, file, plugin=plugin)
    rows = (line.split('|') for line in lines if '|' in line)
    return {name: tuple(map(float, figures)) for name, *figures in rows}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('programs')
    parser.add_argument('plugin')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--calls', type=int, default=10000)
    parser.add_argument('--spin', type=int)
    arguments = parser.parse_args()
    programs = orb.Orb(arguments.programs, arguments.plugin, 1)
    spinning = 'vipl, spinning' if arguments.spin is None else f'vipl, spin {arguments.spin}'
    ways = {'tcp': ('giop:tcp:127.0.0.1:', False, None),
            'unix': (f'giop:unix:{programs.folder}/socket', False, None),
            'vipl, asleep': ('giop:vipl:', True, 0),
            spinning: ('giop:vipl:', True, arguments.spin)}
    found = {way: [] for way in ways}
    for _ in range(arguments.rounds):
        for way, (endpoint, plugin, spin) in ways.items():
            os.environ.pop('VIPL_SPIN_US', None)
            if spin is not None:
                os.environ['VIPL_SPIN_US'] = str(spin)
            found[way].append(measure(programs, endpoint, plugin, arguments.calls))
    print(f'| us: {" / ".join(FIGURES)} | ' + ' | '.join(ways) + ' |\n|' + '---|' * (len(ways) + 1))
    for call in CALLS:
        cells = [' / '.join(f'{statistics.median(round_[call][i] for round_ in found[way]):.1f}' for i in range(len(FIGURES)))
                 for way in ways]
        print(f'| {call} | ' + ' | '.join(cells) + ' |')


if __name__ == '__main__':
    main()
