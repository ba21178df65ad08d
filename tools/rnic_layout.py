#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes src/devices/rnic/efe/layout.c, which has the widths of the numbers in the rows of the card's area, from what the compiler says of the
structures: a saved card is for CPUs of either byte order.

    rnic_layout.py BUILD            rewrites the file; BUILD is a build for a CPU of 64 bits, with -g, that has vipl_rnic_card
    rnic_layout.py --check BUILD    says whether it is as it would be written, and fails if not

It takes gdb; without it, --check ends with 77.
"""
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TARGET = 'src/devices/rnic/efe/layout.c'
# (name here, file whose object knows the structure, name there)
ROWS = [('state', 'card/card.c', 'rnic_state'), ('fn', 'card/card.c', 'rnic_fn'), ('qp', 'card/qp.c', 'rnic_qp'),
        ('inbound', 'card/reads.c', 'rnic_inbound'), ('cq', 'card/cq.c', 'rnic_cq'), ('mr', 'card/mr.c', 'rnic_mr'),
        ('listen', 'card/listen.c', 'rnic_listen'), ('claim', 'card/claim.c', 'rnic_claim'), ('request', 'card/request.c', 'rnic_request'),
        ('flow', 'card/schedule.c', 'rnic_flow'), ('raw', 'card/raw.c', 'rnic_raw'), ('template', 'card/aotf.c', 'rnic_template'),
        ('store', 'card/aotf.c', 'rnic_store'), ('faults', 'card/faults.c', 'faults'), ('switch', 'efe/switch.c', 'state'),
        ('switch_queue', 'efe/switch.c', 'queue'), ('switch_slot', 'efe/switch.c', 'slot'), ('switch_held', 'efe/switch.c', 'held'),
        ('frames', 'efe/frames.c', 'rnic_frames'), ('efe', 'efe/efe.c', 'efe_state'), ('efe_flow', 'efe/efe.c', 'efe_flow'),
        ('efe_path', 'efe/efe.c', 'efe_path'), ('efe_slot', 'efe/efe.c', 'efe_slot')]
# Within gdb: the width of each number of the structure, bytes between them as numbers of one byte. Of a union, that of its first member.
INSIDE = '''
import gdb
def widths(type, at):
    type = type.strip_typedefs()
    if type.code == gdb.TYPE_CODE_STRUCT:
        for field in type.fields():
            yield from widths(field.type, at + field.bitpos // 8)
    elif type.code == gdb.TYPE_CODE_UNION:
        yield from widths(type.fields()[0].type, at)
    elif type.code == gdb.TYPE_CODE_ARRAY:
        low, high = type.range()
        for i in range(low, high + 1):
            yield from widths(type.target(), at + (i - low) * type.target().sizeof)
    else:
        yield at, type.sizeof
type = gdb.lookup_type('struct NAME')
out, end = [], 0
for at, size in list(widths(type, 0)) + [(type.sizeof, 0)]:
    out += [1] * (at - end) + [size] * (size > 0)
    end = at + size
print('WIDTHS', *out)
'''


def runs_of(build, source, name):
    """((count, width), ...) of a structure."""
    object_file = os.path.join(build, 'CMakeFiles', 'vipl_rnic_card.dir', 'src', 'devices', 'rnic', source + '.o')
    said = subprocess.run(['gdb', '-nx', '-batch', '-ex', 'python exec(%r)' % INSIDE.replace('NAME', name), object_file], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, universal_newlines=True, check=False).stdout
    lines = [line for line in said.splitlines() if line.startswith('WIDTHS ')]
    if not lines:
        sys.exit('struct %s of %s: %s' % (name, source, said))
    runs = []
    for width in map(int, lines[0].split()[1:]):
        if runs and runs[-1][1] == width:
            runs[-1][0] += 1
        else:
            runs.append([1, width])
    return runs


def text_of(build):
    lines = ['/* SPDX-License-Identifier: MIT */', '/* Made by tools/rnic_layout.py from the structures: run that again. */',
             '#include "devices/rnic/efe/layout.h"', '', '/* clang-format off */', '']
    table = []
    for name, source, struct in ROWS:
        runs = runs_of(build, source, struct)
        lines.append('static const struct rnic_run of_%s[] = {' % name)
        words = ['{%d, %d},' % (count, width) for count, width in runs]
        line = '   '
        for word in words:
            if len(line) + len(word) > 98:
                lines.append(line)
                line = '   '
            line += ' ' + word
        lines += [line, '};', '']
        table.append('const struct rnic_layout rnic_layout_%s = {"%s", of_%s, sizeof(of_%s) / sizeof(of_%s[0]), %d};' %
                     (name, name, name, name, name, sum(count * width for count, width in runs)))
    return '\n'.join(lines + table + ['', '/* clang-format on */', ''])


def main(arguments):
    is_check = arguments[:1] == ['--check']
    if len(arguments) != 1 + is_check:
        sys.exit(__doc__)
    if is_check and shutil.which('gdb') is None:
        print('cannot run: gdb is not installed')
        sys.exit(1 if os.environ.get('CI') == 'true' else 77)
    text = text_of(arguments[-1])
    path = os.path.join(ROOT, TARGET)
    if is_check:
        with open(path, encoding='utf-8') as file:
            sys.exit(None if file.read() == text else TARGET + ' is not as the structures are: tools/rnic_layout.py BUILD')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


main(sys.argv[1:])
