#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes everything that describes the RDMA card's registers and entries from src/rnic/registers.json.

    rnic_registers.py            rewrites src/rnic/registers.h and registers.py, tools/rnic_log/names.c, and the parts of
                                 other files between the marks "rnic_registers: NAME" and "rnic_registers: end"
    rnic_registers.py --check    says what is not as it would be written, and fails
"""
import json
import os
import re
import sys
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCE = 'src/rnic/registers.json'
HEADER = 'src/rnic/registers.h'
MODULE = 'src/rnic/registers.py'
NAMES = 'tools/rnic_log/names.c'
NAMED = ['COMMAND', 'STATUS', 'EVENT', 'ERROR', 'WORK', 'QP_STATE', 'EFE_TYPE', 'CONTROL']
MARKED = ['docs/rnic/hardware.md', 'docs/rnic/efe.md', 'tools/wireshark/efe.lua']
MARK = re.compile(r'(?P<begin>[^\n]*rnic_registers: (?!end)(?P<name>[^\n>-]+?)(?: -->)?\n).*?(?P<end>[^\n]*rnic_registers: end[^\n]*)', re.S)
WIDTHS = {1: 'u8', 2: 'u16', 4: 'u32', 8: 'u64'}


def constants(data):
    """(name, value as text, comment), in groups with a title."""
    groups = [('Numbers', [('RNIC_' + n, v, d) for n, v, d in data['constants']])]
    for space in data['spaces']:
        group = []
        for name, offset, access, reset, text, *fields in space['registers']:
            group.append(('RNIC_%s_%s' % (space['prefix'], name), offset, '%s; %s' % (access, text) if text else access))
            for field, lsb, width, meaning in fields[0] if fields else []:
                full = 'RNIC_%s_%s' % (name, field)
                if width == 1:
                    group.append((full, '0x%X' % (1 << lsb), meaning))
                else:
                    group.append((full + '_SHIFT', str(lsb), meaning))
                    group.append((full + '_MASK', '0x%X' % (((1 << width) - 1) << lsb if lsb + width < 32 else (1 << width) - 1),
                                  'of the field' if lsb + width < 32 else 'of the field, when it has been shifted'))
        groups.append(('%s: %s' % (space['name'], space['about']), group))
    for entry in data['entries'] + data['frames']:
        group = []
        for name, offset, width, text in entry['fields']:
            kind = WIDTHS.get(width, '%d bytes' % width)
            group.append(('RNIC_%s_%s' % (entry['prefix'], name), str(offset), kind + ('; ' + text if text else '')))
        groups.append(('%s, %d bytes: %s' % (entry['name'], entry['bytes'], entry['about']), group))
    for enum in data['enums']:
        groups.append((enum['about'], [('RNIC_%s_%s' % (enum['name'], n), str(v), t) for n, v, t in enum['values']]))
    return groups


def comment(text, indent=''):
    lines = textwrap.wrap(text, 94 - len(indent), break_on_hyphens=False)
    if len(lines) == 1:
        return indent + '/* ' + lines[0] + ' */\n'
    return indent + '/*\n' + ''.join(indent + ' * ' + l + '\n' for l in lines) + indent + ' */\n'


def header(data):
    out = ['/* SPDX-License-Identifier: MIT */\n',
           comment('Made by tools/rnic_registers.py from registers.json: change that. docs/rnic/hardware.md explains it.'),
           '#ifndef RNIC_REGISTERS_H\n#define RNIC_REGISTERS_H\n\n/* clang-format off */\n']
    for title, group in constants(data):
        out.append('\n' + comment(title) + 'enum {\n')
        for i, (name, value, text) in enumerate(group):
            comma = ',' if i + 1 < len(group) else ''
            note = ' /* %s */' % text if text else ''
            line = '    %s = %s%s%s' % (name, value, comma, note)
            out.append(line + '\n' if len(line) <= 100 else comment(text, '    ') + '    %s = %s%s\n' % (name, value, comma))
        out.append('};\n')
    out.append('\n/* clang-format on */\n\n#endif\n')
    return ''.join(out)


def python(data):
    out = ['# SPDX-License-Identifier: MIT\n"""The RDMA card\'s registers and entries; made by tools/rnic_registers.py from registers.json."""\n']
    for title, group in constants(data):
        out.append('\n# ' + title + '\n')
        out += ['%s = %s\n' % (name, value) for name, value, _ in group]
    return ''.join(out)


def names(data):
    """The names of registers and values, for what reads the card's log."""
    enums = {enum['name']: enum for enum in data['enums']}
    out = ['/* SPDX-License-Identifier: MIT */\n',
           comment('Made by tools/rnic_registers.py from src/rnic/registers.json: change that.'),
           '#include "names.h"\n\n/* clang-format off */\n']
    for name in NAMED:
        out.append('\nstatic const struct log_name %s[] = {\n' % name.lower())
        out += ['    {%s, "%s"},\n' % (value, n) for n, value, _ in enums[name]['values']]
        out.append('};\n')
    out.append('\nconst struct log_names log_tables[LOG_TABLES] = {\n')
    out += ['    [LOG_%s] = {"%s", %s, sizeof(%s) / sizeof(%s[0])},\n' % (n, n, n.lower(), n.lower(), n.lower()) for n in NAMED]
    out.append('};\n\nconst struct log_register log_registers[] = {\n')
    for name, offset, access, *_ in data['spaces'][0]['registers']:
        may = {'ro': 'LOG_MAY_READ', 'wo': 'LOG_MAY_WRITE'}.get(access, 'LOG_MAY_READ | LOG_MAY_WRITE')
        out.append('    {"%s", %s, %s},\n' % (name, offset, may))
    out.append('};\nconst unsigned log_register_count = sizeof(log_registers) / sizeof(log_registers[0]);\n\n/* clang-format on */\n')
    return ''.join(out)


def table(head, rows):
    out = ['| ' + ' | '.join(head) + ' |\n', '|' + '---|' * len(head) + '\n']
    return ''.join(out + ['| ' + ' | '.join(str(c).replace('|', '\\|') for c in row) + ' |\n' for row in rows])


def section(about, head, rows):
    """A paragraph of a document, and a table."""
    return '\n'.join(textwrap.wrap(about, 120, break_on_hyphens=False)) + '\n\n' + table(head, rows)


def space_table(space):
    rows = []
    for name, offset, access, reset, text, *fields in space['registers']:
        rows.append(('`%s`' % offset, '**%s**' % name, access, reset, text))
        for field, lsb, width, meaning in fields[0] if fields else []:
            bits = str(lsb) if width == 1 else '%d..%d' % (lsb + width - 1, lsb)
            rows.append(('', '%s [%s]' % (field, bits), '', '', meaning))
    return section(space['about'], ['offset', 'register', 'access', 'reset', 'meaning'], rows)


def entry_table(entry):
    rows = [(offset, width, '**%s**' % name, text) for name, offset, width, text in entry['fields']]
    return section(entry['about'], ['offset', 'bytes', 'field', 'meaning'], rows)


def enum_table(enum):
    return section(enum['about'], ['value', 'name', 'meaning'], [(v, '**%s**' % n, t) for n, v, t in enum['values']])


def lua_fields(data):
    """Names, offsets, widths and meanings of the frame's fields, and the names of their values."""
    frame = data['frames'][0]
    out = ['local FIELDS = {\n']
    out += ['    {"%s", %d, %d, %s},\n' % (n.lower(), o, w, json.dumps(t)) for n, o, w, t in frame['fields']]
    out.append('}\n')
    for enum in data['enums']:
        if enum['name'] in ('EFE_TYPE', 'EFE_FLAG', 'CONTROL', 'REFUSED'):
            out.append('local %s = {%s}\n' % (enum['name'], ', '.join('[%s] = "%s"' % (v, n.lower()) for n, v, _ in enum['values'])))
    return ''.join(out)


def parts(data):
    out = {}
    for space in data['spaces']:
        out[space['name']] = space_table(space)
    for entry in data['entries'] + data['frames']:
        out['entry ' + entry['name']] = entry_table(entry)
    for enum in data['enums']:
        out['enum ' + enum['name']] = enum_table(enum)
    out['constants'] = table(['name', 'value', 'meaning'], [('**%s**' % n, v, d) for n, v, d in data['constants']])
    out['lua'] = lua_fields(data)
    return out


def marked(text, pieces, path):
    def replace(match):
        name = match.group('name').strip()
        if name not in pieces:
            sys.exit('%s: nothing is called "%s" in %s' % (path, name, SOURCE))
        between = '\n' + pieces[name] + '\n' if path.endswith('.md') else pieces[name]
        return match.group('begin') + between + match.group('end')
    return MARK.sub(replace, text)


def check_layout(data):
    """No two fields of one entry overlap, and none lies outside or is not aligned."""
    for entry in data['entries'] + data['frames']:
        end = 0
        for name, offset, width, _ in entry['fields']:
            if offset < end or offset + width > entry['bytes'] or (width in (2, 4, 8) and offset % min(width, 4)):
                sys.exit('%s: %s.%s overlaps, lies outside or is not aligned' % (SOURCE, entry['name'], name))
            end = offset + width
    names = [name for _, group in constants(data) for name, _, _ in group]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        sys.exit('%s: twice: %s' % (SOURCE, ', '.join(sorted(twice))))


def read(path):
    with open(os.path.join(ROOT, path), encoding='utf-8') as file:
        return file.read()


def main():
    data = json.loads(read(SOURCE))
    check_layout(data)
    files = {HEADER: header(data), MODULE: python(data), NAMES: names(data)}
    for path in MARKED:
        if os.path.exists(os.path.join(ROOT, path)):
            files[path] = marked(read(path), parts(data), path)
    wrong = [path for path, text in files.items() if not os.path.exists(os.path.join(ROOT, path)) or read(path) != text]
    if sys.argv[1:] == ['--check']:
        for path in wrong:
            print('%s: not as %s has it; run tools/rnic_registers.py' % (path, SOURCE))
        return 1 if wrong else 0
    for path in wrong:
        with open(os.path.join(ROOT, path), 'w', encoding='utf-8') as file:
            file.write(files[path])
    return 0


if __name__ == '__main__':
    sys.exit(main())
