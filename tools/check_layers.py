#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks who may include and call what, as docs/design/architecture.md says. Prints file:line: rule.

    check_layers.py [ROOT]      checks the tree (default: the one this file is in)
    check_layers.py --self-test checks that every rule finds its bad sample
"""
import fnmatch
import os
import re
import sys
import tempfile

# Which rooms a room's files may include, besides the public headers; an entry that ends in .h is one header, or with a star
# headers. A folder below another one is a room of its own. src/share is two rooms: what clients and the server share, and the clients.
CONTRACT = {'core/backend.h', 'core/backend_up.h'}
SHARED = {'share/arena.h', 'share/call.h', 'share/note.h', 'share/posts.h', 'share/rings.h', 'share/start.h'}
ROOMS = {
    'src/api': {'api', 'core', 'share/client*.h', 'base', 'os'},
    'src/core': {'core', 'base', 'os'},
    'src/share': SHARED | {'base', 'os'},
    'src/share/client': SHARED | {'share/client*.h', 'start', 'base', 'os'},
    'src/start': {'start', 'base', 'os'},
    'src/server': SHARED | {'server', 'core/sink.h', 'base', 'os'},
    'src/hook': {'hook', 'core', 'base', 'os'},
    'src/base': {'base', 'os'},
    'src/stream': {'stream', 'base', 'os'},
    'src/sockets': {'sockets', 'stream', 'base', 'os'},
    'src/dm': {'dm'},
    'src/dm/dpdk': {'dm', 'dm/dpdk'},
    'src/dm/nvme': {'dm', 'dm/nvme'},
    # The card as a port: on the card's driver.
    'src/dm/rnic': {'dm', 'dm/rnic', 'backends/rnic/verbs/verbs.h', 'rnic', 'base', 'os'},
    'src/iwarp': {'iwarp'},
    'src/rnic': {'rnic'},
    # The model of the card: what the card does, above the wire protocol with its switch and its bad wires.
    'src/devices/rnic/card': {'devices/rnic/card', 'devices/rnic/efe/efe.h', 'devices/rnic/efe/layout.h', 'devices/rnic/efe/switch.h', 'devices/rnic/efe/rng.h',
                              'iwarp', 'rnic'},
    'src/devices/rnic/efe': {'devices/rnic/efe', 'iwarp'},
    'src/devices/rnic': set(),
    'src/vfio_user': {'vfio_user', 'base', 'os'},
    'src/bus': {'bus', 'base', 'os'},
    'src/adapter': {'adapter', 'devices/rnic/card/card.h', 'devices/rnic/efe/frame.h', 'bus', 'vfio_user', 'rnic', 'start', 'base', 'os'},
    'src/os': {'os'},
    # The device rnic: VIs in terms of the verbs, the card's driver in terms of a bus, and the ways to a card.
    'src/backends/rnic': CONTRACT | {'backends/rnic', 'backends/rnic/verbs/verbs.h', 'rnic', 'start', 'base', 'os'},
    'src/backends/rnic/verbs': {'backends/rnic/verbs', 'backends/rnic/pci/pci.h', 'rnic', 'base', 'os'},
    'src/backends/rnic/pci': {'backends/rnic/pci', 'rnic', 'bus', 'vfio_user', 'start', 'base', 'os'},
    # Figures of the card itself: its driver, its model, and what its users have of the system.
    'bench/papers': {'backends/rnic/verbs/verbs.h', 'backends/rnic/verbs/command.h', 'backends/rnic/pci/pci.h', 'devices/rnic/card/card.h', 'devices/rnic/efe/impair.h',
                     'devices/rnic/efe/frame.h', 'iwarp/rdmap.h', 'rnic/registers.h', 'os/os.h', 'endpoint.h', 'ends.h', 'rate.h', 'sim.h', 'table.h', 'tool_os.h', 'tool_text.h', 'tool_vipl.h'},
    # What reads the card's log has it from the adapter's own code, and replays it over the bus protocol.
    'tools/rnic_log': {'rnic', 'adapter/log.h', 'base/deadline.h', 'base/little.h', 'bus/host.h', 'os/os_atomic.h', 'devices/rnic/card/card.h',
                       'devices/rnic/efe/frame.h', 'ahead.h', 'card.h', 'coverage.h', 'ends.h', 'explain.h', 'frame.h', 'image.h', 'names.h', 'options.h',
                       'read.h', 'replay.h', 'rings.h', 'saved.h', 'select.h', 'vcd.h', 'tool_options.h', 'tool_text.h'},
}
BACKEND = CONTRACT | {'base', 'os', 'iwarp'}
# One way to a card has the card in this process.
MODEL = {'src/backends/rnic/pci/inproc.c': {'devices/rnic/card/card.h'}}
# A tool that reads what a library writes.
TOOLS = {'tools/run_stats.c': {'sockets/stats.h'}}
# Rooms that do not know VIPL.
NOT_VIPL = ('src/os', 'src/iwarp', 'src/rnic', 'src/devices/rnic/card', 'src/devices/rnic/efe', 'src/backends/rnic/verbs', 'src/backends/rnic/pci')
# Rooms that are about the system's own calls: the services of the library, the sockets of programs that do not know it, and a library
# that does without the rest.
OF_THE_SYSTEM = ('src/os', 'src/sockets', 'src/dm', 'src/dm/dpdk', 'src/dm/nvme')
INSIDE = {'api', 'core', 'base', 'dm', 'share', 'server', 'hook', 'stream', 'sockets', 'os', 'backends', 'iwarp', 'rnic', 'devices', 'vfio_user', 'bus', 'adapter', 'start'}

# Where the build lists the sources of src.
LISTS = ('CMakeLists.txt', 'cmake/vipl_os.cmake', 'cmake/vipl_dm.cmake')

# The C library's headers that need no operating system, for everything outside src/os, and for src/os/any.
STANDARD = {'assert.h', 'ctype.h', 'errno.h', 'inttypes.h', 'limits.h', 'stdalign.h', 'stdarg.h', 'stdbool.h',
            'stddef.h', 'stdint.h', 'stdio.h', 'stdlib.h', 'string.h'}

SYSTEM_MACRO = re.compile(r'\b(_WIN32|_WIN64|__CYGWIN__|__linux__|__linux|__gnu_linux__|__unix__|__APPLE__|__FreeBSD__|'
                          r'__NetBSD__|__OpenBSD__|__sun|__ANDROID__|_MSC_VER|__MINGW32__)\b')
# The systems of src/os/windows and src/os/bsd. No tool and no test asks for them either.
PORTED = {'_WIN32', '__APPLE__', '__FreeBSD__'}
ENDIAN_MACRO = re.compile(r'\b(__BYTE_ORDER__|__BYTE_ORDER|BYTE_ORDER|__BIG_ENDIAN__|__LITTLE_ENDIAN__)\b')

# Services of the system that have a name in os/os.h.
SERVICE = re.compile(r'(?<![\w.>])('
                     r'malloc|calloc|realloc|free|aligned_alloc|posix_memalign|strdup|strndup|asprintf|'
                     r'pthread_\w+|thrd_\w+|mtx_\w+|cnd_\w+|sem_\w+|'
                     r'clock_gettime|clock|gettimeofday|time|timespec_get|nanosleep|clock_nanosleep|usleep|sleep|sched_yield|'
                     r'getenv|secure_getenv|getpid|fork|vfork|mmap|munmap|shm_open|memfd_create|syscall|getrandom|'
                     r'poll|epoll_\w+|eventfd|socket|sendmsg|recvmsg|'
                     r'signal|sigaction|sigprocmask|atexit|exit|_exit|quick_exit'
                     r')\s*\(')
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
DIRECTIVE = re.compile(r'^\s*#\s*include\b')
CONDITION = re.compile(r'^\s*#\s*(if|ifdef|ifndef|elif)\b')
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def blank(match):
    """A comment or a literal, emptied; line ends stay so that line numbers do."""
    text = match.group(0)
    return '""' if text[0] == '"' else re.sub(r'[^\n]', ' ', text)


def layer_of(path):
    parts = path.split('/')
    if parts[:2] == ['src', 'share'] and len(parts) > 2:
        return 'src/share/client' if parts[2].startswith('client') else 'src/share'
    if parts[0] == 'src' and len(parts) > 2:
        return '/'.join(parts[:-1]) if parts[1] in ('backends', 'devices', 'dm') else 'src/' + parts[1]
    if parts[0] == 'tests' and len(parts) > 1:
        return 'tests/' + parts[1]
    return '/'.join(parts[:2]) if parts[:2] in (['bench', 'papers'], ['tools', 'rnic_log']) else parts[0]


def is_in(allowed, folder, name):
    """Whether a set of rooms, and of headers that may have stars, has the header."""
    rooms = {folder, os.path.dirname(name)}
    return bool(rooms & allowed) or any(fnmatch.fnmatch(name, one) for one in allowed)


def is_of_no_system(path, layer):
    """Whether the file may name nothing of an operating system. In src/os/any, the library's allocator may call the C library's."""
    return path.startswith('src/os/any/') or (layer.startswith('src/') and layer not in OF_THE_SYSTEM)


def include_error(path, layer, kind, name):
    """Why this include is not allowed, or None."""
    if kind == '<' and not name.startswith('vipl'):
        inside = is_of_no_system(path, layer)
        library = (layer, name) in (('src/backends/tcp', 'uv.h'), ('src/stream', 'poll.h')) # poll.h: of VipxCQWaitFds()
        return 'system header outside src/os' if inside and name not in STANDARD and not library else None
    folder = name.split('/')[0] if '/' in name else 'os' if name.startswith('os_') else ''
    public = (folder == 'vipl' or name == 'vipl.h') and layer not in NOT_VIPL
    if layer in ROOMS:
        if public or is_in(ROOMS[layer] | MODEL.get(path, set()), folder, name):
            return None
        return layer + ' does not include this'
    if layer.startswith('src/backends/'):
        if public or is_in(BACKEND | {layer[len('src/'):]}, folder, name):
            return None
        return 'a backend sees its contract, base, os, iwarp and itself'
    if layer in ('include', 'providers', 'tools', 'bench', 'examples', 'tests/conformance', 'tests/posix', 'tests/package'):
        return 'public headers only' if folder in INSIDE and name not in TOOLS.get(path, set()) else None
    return None


def check_file(root, path, backends):
    with open(os.path.join(root, path), encoding='utf-8') as file:
        text = file.read()
    layer = layer_of(path)
    inside = layer.startswith('src/') and layer not in OF_THE_SYSTEM
    public = layer == 'include' and path != 'include/vipl/vipl.h' # its macro of exported functions asks
    findings = []
    head = text.split('\n', 2)[:2]
    if not any('SPDX-License-Identifier: MIT' in line for line in head):
        findings.append((path, 1, 'no SPDX line at the top'))
    if not path.endswith(('.c', '.h', '.cpp', '.hpp')):
        return findings
    original = text.split('\n')
    named = re.compile(r'\bvipl_(%s)_\w+' % '|'.join(backends)) if backends else None
    for number, line in enumerate(COMMENT_OR_TEXT.sub(blank, text).split('\n'), 1):
        include = INCLUDE.match(original[number - 1]) if DIRECTIVE.match(line) else None
        if include:
            error = include_error(path, layer, include.group(1), include.group(2))
            if error:
                findings.append((path, number, error + ': ' + include.group(2)))
            continue
        if CONDITION.match(line):
            for macro in SYSTEM_MACRO.findall(line):
                if is_of_no_system(path, layer) or public or (macro in PORTED and layer not in ('src/os', 'cmake', 'include')):
                    findings.append((path, number, 'operating system asked for outside src/os: ' + macro))
        if CONDITION.match(line) and (inside or public):
            for macro in ENDIAN_MACRO.findall(line):
                findings.append((path, number, 'byte order asked for outside src/os: ' + macro))
        if inside:
            for call in SERVICE.findall(line):
                findings.append((path, number, 'call of the system outside src/os: ' + call))
        if layer == 'src/core' and named:
            for match in named.finditer(line):
                findings.append((path, number, 'core names a backend: ' + match.group(0)))
    return findings


def sources_of(cmake):
    """The paths of what vipl_layer(), vipl_helper(), vipl_part(), vipl_backend() and vipl_card() list."""
    built = set()
    cmake = re.sub(r'vipl_(?:card|part)\(\S+|vipl_helper\(\S+\s+\S+', 'vipl_layer(', cmake)
    for kind, folder, names in re.findall(r'vipl_(layer|backend)\(\s*(\S+)\s+([^)]*)\)', cmake):
        where = 'src/backends/' + folder if kind == 'backend' else folder
        built.update(where + '/' + name for name in names.split())
    return built


def listed_near(root, path):
    """Whether a CMakeLists.txt, or a list that it includes, of the file's folder or of one above it names the file."""
    name = re.compile(r'(?<![\w-])' + re.escape(os.path.basename(path)) + r'(?![\w-])')
    folder = os.path.dirname(path)
    while folder:
        for each in ('CMakeLists.txt', 'sources.cmake'):
            cmake = os.path.join(root, folder, each)
            if os.path.exists(cmake):
                with open(cmake, encoding='utf-8') as file:
                    if name.search(file.read()):
                        return True
        folder = os.path.dirname(folder)
    return False


def is_listed(root, path, built):
    """Whether the build knows the source. Programs that projects outside this tree would write are not part of it."""
    if path.startswith('src/'):
        return not path.endswith('.c') or path in built
    if path.startswith('tests/package/') or not path.endswith('.cpp' if path.startswith('tests/') else '.c'):
        return True
    return path.startswith(('include/', 'cmake/')) or listed_near(root, path)


def check_tree(root):
    folder = os.path.join(root, 'src/backends')
    backends = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    built = set()
    for name in LISTS:
        with open(os.path.join(root, name), encoding='utf-8') as file:
            built |= sources_of(file.read())
    findings = []
    for top in ('include', 'src', 'providers', 'tools', 'bench', 'examples', 'tests', 'cmake'):
        for where, folders, files in os.walk(os.path.join(root, top)):
            folders.sort()
            for name in sorted(files):
                if name.endswith(('.c', '.h', '.cpp', '.hpp', '.py', '.sh', '.cmake')) or name == 'CMakeLists.txt':
                    path = os.path.relpath(os.path.join(where, name), root)
                    findings += check_file(root, path, backends)
                    if not is_listed(root, path, built):
                        findings.append((path, 1, 'not in CMakeLists.txt'))
    return findings


# Path, then lines; a line that must be found ends in the words of its rule after "@@".
SAMPLES = {
    'src/core/good.c': ['#include "core/vi.h"', '#include <string.h>', 'void f(void) { pool->free(x); } /* malloc() */',
                        'const char *s = "free(";', 'void vipl_free(void *p);'],
    'src/core/bad.c': ['#include "backends/loopback/loopback.h" @@ src/core does not include this',
                       '#include <pthread.h> @@ system header outside src/os',
                       '#ifdef __linux__ @@ operating system asked for',
                       '#elif defined(_WIN32) @@ operating system asked for',
                       '#if __BYTE_ORDER__ == 1234 @@ byte order asked for',
                       'void *p = malloc(1); @@ call of the system',
                       '/* a comment', ' * of lines */ pthread_mutex_lock(&m); @@ call of the system',
                       'clock_gettime(0, &t); @@ call of the system',
                       'x = vipl_loopback_ops; @@ core names a backend',
                       '#include "api/api.h" @@ src/core does not include this',
                       '#include "server/rings.h" @@ src/core does not include this'],
    'src/api/good.c': ['#include "share/client_call.h"', '#include "core/vi.h"'],
    'src/api/bad.c': ['#include "server/server.h" @@ src/api does not include this',
                      '#include "share/arena.h" @@ src/api does not include this'],
    'src/share/rings.c': ['#include "share/arena.h"', '#include "core/sink.h" @@ src/share does not include this'],
    'src/share/client_call.c': ['#include "share/call.h"',
                                '#include "core/nic.h" @@ src/share/client does not include this',
                                '#include "server/calls.h" @@ src/share/client does not include this'],
    'src/server/calls.c': ['#include "core/sink.h"', '#include "server/heap.h"',
                           '#include "core/vi.h" @@ src/server does not include this',
                           '#include "share/client.h" @@ src/server does not include this'],
    'src/dm/good.c': ['#include <pthread.h>', '#include "dm/store.h"', '#include "vipl/device_memory.h"', 'free(p);'],
    'src/dm/bad.c': ['#include "os/os.h" @@ src/dm does not include this'],
    'src/dm/rnic/good.c': ['#include "backends/rnic/verbs/verbs.h"', '#include "dm/port.h"', '#include "os/os.h"', '#include "rnic/registers.h"'],
    'src/dm/rnic/bad.c': ['#include "backends/rnic/verbs/function.h" @@ src/dm/rnic does not include this', 'p = malloc(1); @@ call of the system'],
    'src/base/bad.c': ['#include "core/vi.h" @@ src/base does not include this'],
    'src/os/any/good.c': ['#include <errno.h>', '#include "os/os.h"', 'free(p);'],
    'src/os/any/bad.c': ['#include <sys/mman.h> @@ system header outside src/os', '#ifdef __linux__ @@ operating system asked for'],
    'src/os/posix/good.c': ['#include <pthread.h>', '#include "os/os.h"', '#ifdef __linux__', 'free(p);'],
    'src/os/posix/bad.c': ['#include "base/log.h" @@ src/os does not include this'],
    'src/backends/loopback/good.c': ['#include "core/backend_up.h"', '#include "backends/loopback/ring.h"',
                                     '#include "os/os.h"'],
    'src/backends/loopback/bad.c': ['#include "core/vi.h" @@ a backend sees its contract',
                                    '#include "backends/tcp/tcp.h" @@ a backend sees its contract'],
    'src/backends/tcp/tcp.h': [],
    'src/backends/rnic/rnic.c': ['#include "core/backend.h"', '#include "backends/rnic/verbs/verbs.h"', '#include "rnic/registers.h"',
                                 '#include "backends/rnic/verbs/slab.h" @@ src/backends/rnic does not include this',
                                 '#include "backends/rnic/pci/pci.h" @@ src/backends/rnic does not include this',
                                 '#include "core/vi.h" @@ src/backends/rnic does not include this'],
    'src/backends/rnic/verbs/cq.c': ['#include "backends/rnic/verbs/slab.h"', '#include "backends/rnic/pci/pci.h"', '#include "rnic/entry.h"',
                                     '#include "backends/rnic/rnic.h" @@ src/backends/rnic/verbs does not include this',
                                     '#include "backends/rnic/pci/iova.h" @@ src/backends/rnic/verbs does not include this',
                                     '#include "core/backend.h" @@ src/backends/rnic/verbs does not include this',
                                     '#include "vipl/vipl.h" @@ src/backends/rnic/verbs does not include this',
                                     '#include "vfio_user/client.h" @@ src/backends/rnic/verbs does not include this',
                                     '#include "iwarp/mpa.h" @@ src/backends/rnic/verbs does not include this'],
    'src/backends/rnic/pci/inproc.c': ['#include "devices/rnic/card/card.h"', '#include "backends/rnic/pci/pci.h"',
                                       '#include "devices/rnic/efe/efe.h" @@ src/backends/rnic/pci does not include this'],
    'src/backends/rnic/pci/vfio.c': ['#include "backends/rnic/pci/iova.h"', '#include "vfio_user/client.h"',
                                     '#include "backends/rnic/verbs/verbs.h" @@ src/backends/rnic/pci does not include this',
                                     '#include "backends/rnic/rnic.h" @@ src/backends/rnic/pci does not include this',
                                     '#include "devices/rnic/card/card.h" @@ src/backends/rnic/pci does not include this',
                                     '#include "adapter/adapter.h" @@ src/backends/rnic/pci does not include this'],
    'src/devices/rnic/card/card.c': ['#include "devices/rnic/card/state.h"', '#include "devices/rnic/efe/efe.h"', '#include "iwarp/rdmap.h"',
                                     '#include "rnic/registers.h"',
                                     '#include "devices/rnic/efe/state.h" @@ src/devices/rnic/card does not include this',
                                     '#include "os/os.h" @@ src/devices/rnic/card does not include this',
                                     '#include "base/list.h" @@ src/devices/rnic/card does not include this',
                                     '#include "vipl/vipl.h" @@ src/devices/rnic/card does not include this',
                                     '#include <time.h> @@ system header outside src/os', 'void *p = malloc(1); @@ call of the system'],
    'src/devices/rnic/efe/efe.c': ['#include "devices/rnic/efe/state.h"', '#include "iwarp/bytes.h"',
                                   '#include "devices/rnic/card/state.h" @@ src/devices/rnic/efe does not include this',
                                   '#include "rnic/registers.h" @@ src/devices/rnic/efe does not include this',
                                   '#include "base/list.h" @@ src/devices/rnic/efe does not include this'],
    'src/devices/rnic/beside.c': ['#include "rnic/registers.h" @@ src/devices/rnic does not include this'],
    'src/rnic/entry.h': ['#include "rnic/registers.h"', '#include "base/little.h" @@ src/rnic does not include this'],
    'src/vfio_user/message.c': ['#include "base/little.h"', '#include "rnic/registers.h" @@ src/vfio_user does not include this'],
    'src/adapter/dma.c': ['#include "vfio_user/message.h"', '#include "devices/rnic/card/card.h"',
                          '#include "devices/rnic/card/state.h" @@ src/adapter does not include this',
                          '#include "backends/rnic/pci/pci.h" @@ src/adapter does not include this',
                          '#include "core/vi.h" @@ src/adapter does not include this'],
    'tests/conformance/bad.cpp': ['#include "core/vi.h" @@ public headers only'],
    'bench/papers/bad.c': ['#include "sim.h"', '#include "devices/rnic/card/card.h"',
                           '#include "devices/rnic/card/state.h" @@ bench/papers does not include this'],
    'tools/bad.c': ['#include "os/os.h" @@ public headers only', '#ifdef __linux__', '#ifdef _WIN32 @@ operating system asked for'],
    'tests/unit/bad.cpp': ['#if defined(__APPLE__) @@ operating system asked for', '#ifdef __FreeBSD__ @@ operating system asked for'],
    'include/vipl/vipl.h': ['#ifdef _WIN32'],
    'providers/one/good.c': ['#include <vipl/posix.h>', '#include "provider.h"', 'void *p = malloc(1);'],
    'providers/one/bad.c': ['#include "core/vi.h" @@ public headers only'],
}


def self_test():
    with tempfile.TemporaryDirectory() as root:
        wanted = []
        for path, lines in SAMPLES.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), 'w', encoding='utf-8') as file:
                file.write('/* SPDX-License-Identifier: MIT */\n')
                for number, line in enumerate(lines, 2):
                    code, _, rule = line.partition(' @@ ')
                    file.write(code + '\n')
                    if rule:
                        wanted.append((path, number, rule))
        with open(os.path.join(root, 'tools/unlicensed.py'), 'w', encoding='utf-8') as file:
            file.write('pass\n')
        with open(os.path.join(root, 'CMakeLists.txt'), 'w', encoding='utf-8') as file:
            file.write('# SPDX-License-Identifier: MIT\nvipl_layer(src/core good.c bad.c)\nvipl_layer(src/base bad.c)\n'
                       'vipl_layer(src/api good.c bad.c)\nvipl_layer(src/share rings.c client_call.c)\n'
                       'vipl_layer(src/server calls.c)\nvipl_card(card src/devices/rnic beside.c card/card.c efe/efe.c)\n'
                       'vipl_backend(loopback good.c bad.c)\n'
                       'vipl_backend(rnic rnic.c verbs/cq.c pci/inproc.c pci/vfio.c)\n'
                       'vipl_layer(src/vfio_user message.c)\nvipl_part(part src/adapter dma.c)\n')
        os.makedirs(os.path.join(root, 'cmake'))
        with open(os.path.join(root, 'cmake/vipl_dm.cmake'), 'w', encoding='utf-8') as file:
            file.write('# SPDX-License-Identifier: MIT\nvipl_part(part src/dm good.c bad.c rnic/good.c rnic/bad.c)\n')
        with open(os.path.join(root, 'cmake/vipl_os.cmake'), 'w', encoding='utf-8') as file:
            file.write('# SPDX-License-Identifier: MIT\nvipl_layer(src/os/any good.c bad.c)\nvipl_layer(src/os/posix good.c bad.c)\n')
        with open(os.path.join(root, 'src/core/forgotten.c'), 'w', encoding='utf-8') as file:
            file.write('/* SPDX-License-Identifier: MIT */\n')
        with open(os.path.join(root, 'tools/CMakeLists.txt'), 'w', encoding='utf-8') as file:
            file.write('# SPDX-License-Identifier: MIT\nset(sources bad.c)\n')
        with open(os.path.join(root, 'providers/one/CMakeLists.txt'), 'w', encoding='utf-8') as file:
            file.write('# SPDX-License-Identifier: MIT\nset(sources good.c bad.c)\n')
        wanted.append(('src/core/forgotten.c', 1, 'not in CMakeLists.txt'))
        wanted.append(('tests/conformance/bad.cpp', 1, 'not in CMakeLists.txt'))
        wanted.append(('bench/papers/bad.c', 1, 'not in CMakeLists.txt'))
        wanted.append(('tests/unit/bad.cpp', 1, 'not in CMakeLists.txt'))
        wanted.append(('tools/unlicensed.py', 1, 'no SPDX line'))
        found = check_tree(root)
    missed = [w for w in wanted if not any(f[:2] == w[:2] and f[2].startswith(w[2]) for f in found)]
    wrong = [f for f in found if not any(f[:2] == w[:2] and f[2].startswith(w[2]) for w in wanted)]
    for what, rows in (('not found', missed), ('found wrongly', wrong)):
        for row in rows:
            print('%s: %s:%d: %s' % ((what,) + row))
    print('%d bad lines, %d found, %d wrong' % (len(wanted), len(wanted) - len(missed), len(wrong)))
    return 1 if missed or wrong else 0


def main(arguments):
    if arguments == ['--self-test']:
        return self_test()
    root = arguments[0] if arguments else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    findings = check_tree(root)
    for path, number, text in findings:
        print('%s:%d: %s' % (path, number, text))
    print('layers: %d findings' % len(findings))
    return 1 if findings else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
