#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the built library offers to the linker, and what it asks of it.

    symbols.py exports      NM FOLDER vipl.map libvipl.so   exactly the functions of FOLDER's vipl.h, posix.h and cache.h
    symbols.py dm           NM FOLDER vipl_dm.map libvipldm.so   exactly the functions of FOLDER's device_memory.h
    symbols.py archive      NM libvipl.a                    only names that begin with Vip or vipl_
    symbols.py imports      NM libvipl.so                   nothing that ends or redirects the program
    symbols.py constructors READELF libvipl.so              no code runs at load, none at unload
"""
import os
import re
import subprocess
import sys

# The library never changes the process's signals, timers or exit, and never runs another program. What it does to a
# process of its own (the server of shared objects, the adapter) is in one file each.
FORBIDDEN = {'signal', 'sigaction', 'sigprocmask', 'sigaltstack', 'alarm', 'setitimer', 'timer_create', 'exit', '_exit',
             'quick_exit', 'atexit', 'system', 'popen', 'printf', 'puts', 'putchar', 'execve', 'execv', 'fork',
             'gethostbyname', 'strtok', 'localtime', 'setenv', 'putenv', 'unsetenv', 'setlocale', 'chdir', 'umask'}

OF_ITS_OWN_PROCESS = {'fork': 'spawn.c', '_exit': 'spawn.c', 'chdir': 'spawn.c', 'execve': 'spawn.c', 'signal': 'hidden_child.c'}


def lines_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def compare(what, wanted, found):
    for name in sorted(wanted - found):
        print('%s: missing: %s' % (what, name))
    for name in sorted(found - wanted):
        print('%s: too much: %s' % (what, name))
    return wanted == found


def exports(nm, folder, version_map, library, headers=('vipl.h', 'posix.h', 'cache.h'), function=r'VI_CALL\s+(Vip\w+)\('):
    wanted = set()
    for header in headers:
        with open(os.path.join(folder, header), encoding='utf-8') as file:
            wanted |= set(re.findall(function, file.read()))
    with open(version_map, encoding='utf-8') as file:
        listed = set(re.findall(r'^\s+(\w+);$', re.sub(r'/\*.*?\*/|#.*', '', file.read()), re.M))
    fields = [line.split() for line in lines_of(nm, '-D', '--defined-only', library)]
    found = {row[-1].split('@')[0] for row in fields if row[-2] != 'A'}
    print('%d functions' % len(wanted))
    good = compare(version_map, wanted, listed)
    return compare(library, wanted, found) and good and len(wanted) > 0


def dm(nm, folder, version_map, library):
    return exports(nm, folder, version_map, library, ('device_memory.h',), r'VIPL_DM_API\s+\w+\s+(vipl_dm_\w+)\(')


def archive(nm, library):
    names = [line.split()[-1] for line in lines_of(nm, '-g', '--defined-only', library) if len(line.split()) == 3]
    bad = sorted(name for name in names if not re.match(r'(Vip|vipl_|rnic_|vfu_|efe_)', name))
    for name in bad:
        print('%s: %s has no prefix' % (library, name))
    doubles = sorted({name for name in names if names.count(name) > 1})
    for name in doubles:
        print('%s: %s is there twice' % (library, name))
    strays = stray_calls(nm, library)
    print('%d names' % len(names))
    return names and not bad and not doubles and not strays


def stray_calls(nm, library):
    """Calls that only one file may make, made in another one."""
    strays, unused = [], set(OF_ITS_OWN_PROCESS)
    for line in lines_of(nm, '-A', '--undefined-only', library):
        member, name = line.split(':')[-2], line.split()[-1]
        if name in OF_ITS_OWN_PROCESS:
            unused.discard(name)
            if not member.startswith(OF_ITS_OWN_PROCESS[name]):
                strays.append('%s: calls %s' % (member, name))
    for stray in strays:
        print(stray)
    for name in sorted(unused):
        print('%s: nothing calls %s: was %s renamed?' % (library, name, OF_ITS_OWN_PROCESS[name]))
    return strays or unused


def imports(nm, library):
    names = {line.split()[-1].split('@')[0] for line in lines_of(nm, '-D', '--undefined-only', library)}
    bad = sorted(names & FORBIDDEN - set(OF_ITS_OWN_PROCESS))
    for name in bad:
        print('%s: calls %s' % (library, name))
    print('%d names' % len(names))
    return not bad


def constructors(readelf, library):
    good = True
    head = lines_of(readelf, '-h', library)
    pointer = 4 if any('ELF32' in line for line in head) else 8
    atomics = any('AArch64' in line for line in head)  # libgcc looks at load which atomic instructions there are
    for line in lines_of(readelf, '-SW', library):
        match = re.search(r'\.(init_array|fini_array|ctors|dtors)\s+\S+\s+\w+\s+\w+\s+(\w+)', line)
        # One entry each is the C compiler's own frame bookkeeping.
        own = 2 if match and (match.group(1).endswith('tors') or (atomics and match.group(1) == 'init_array')) else 1
        if match and int(match.group(2), 16) > pointer * own:
            print('%s: %s holds more than the compiler\'s own entry' % (library, match.group(1)))
            good = False
    return good


if __name__ == '__main__':
    check = {'exports': exports, 'dm': dm, 'archive': archive, 'imports': imports, 'constructors': constructors}[sys.argv[1]]
    sys.exit(0 if check(*sys.argv[2:]) else 1)
