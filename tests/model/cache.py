#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Memory that goes, and look-ups in the registration cache.

usage: cache.py THREADS ROUNDS [MISTAKE]

One page. Each thread does so many rounds, each any of: take the page away (munmap, which ends with an event if the page is
watched), map a new one if there is none, acquire and release it. The watching thread reads events and marks entries. If the same
page is there throughout a look-up, a hit must be of that page; what a program gets that takes a page away which another thread
is acquiring does not matter, but later look-ups do. MISTAKE plants one, to see that the check finds it:

  no-changing   look-ups do not ask the kernel whether a call is about to report its event
  late-begun    the watching thread counts a read after it, and not before
  early-done    the watching thread counts a read as handled before it has marked the entries
  late-entry    a miss enters the table after its memory is watched and registered
  late-watch    a miss watches its memory after it is registered
  revive        a miss makes its entry live though an event has killed it
"""
import sys
from collections import namedtuple

from explore import Violation, explore, tell

# step: idle, taken (the page is gone), queued (its event can be read), read (it was), look, asked (the kernel's answer was no),
# settled, enter, watch, register, live, use. entry: that of a miss or a hit. page: the one that was there when the look-up began.
Thread = namedtuple('Thread', 'rounds step entry page')
# The page: its number, 0 if there is none, and whether it is watched. last: the last number.
Page = namedtuple('Page', 'number watched last')
# begun, done: counts of reads. step: idle, reading (counted, not read), read (an event, not marked), marked.
Watch = namedtuple('Watch', 'step begun done event')
# state: none, registering, live, dead. number: of the page that was registered; 0: not yet.
Entry = namedtuple('Entry', 'state number')
State = namedtuple('State', 'threads page watch entries queued changing lock')


def put(items, index, item):
    return items[:index] + (item,) + items[index + 1:]


class Cache:
    MISTAKES = ('no-changing', 'late-begun', 'early-done', 'late-entry', 'late-watch', 'revive')
    LATE_ENTRY = ('watch', 'register', 'enter', 'live')
    LATE_WATCH = ('enter', 'register', 'watch', 'live')
    ORDER = ('enter', 'watch', 'register', 'live')

    def __init__(self, threads, rounds, mistake=''):
        self.mistake = mistake
        self.order = {'late-entry': self.LATE_ENTRY, 'late-watch': self.LATE_WATCH}.get(mistake, self.ORDER)
        self.initial = State((Thread(rounds, 'idle', None, 0),) * threads, Page(1, False, 1), Watch('idle', 0, 0, 0),
                             (Entry('none', 0),) * (threads * rounds), 0, 0, None)

    # --- threads of the program ---

    def move(self, state, i, step, **changes):
        thread = state.threads[i]._replace(step=step)
        if 'entry' in changes:
            thread = thread._replace(entry=changes.pop('entry'))
        return state._replace(threads=put(state.threads, i, thread), **changes)

    def begin(self, state, i):
        """What an idle thread may begin."""
        state = state._replace(threads=put(state.threads, i, state.threads[i]._replace(rounds=state.threads[i].rounds - 1)))
        page = state.page
        if page.number == 0:
            yield 'maps a page', self.move(state, i, 'idle', page=Page(page.last + 1, False, page.last + 1))
            return
        yield 'acquires', self.move(state._replace(threads=put(state.threads, i, state.threads[i]._replace(page=page.number))), i, 'look')
        gone = page._replace(number=0, watched=False)
        if page.watched:
            yield 'takes the page away', self.move(state, i, 'taken', page=gone, changing=state.changing + 1)
        else:
            yield 'takes the page away', self.move(state, i, 'idle', page=gone)

    def look(self, state, i):
        """With the lock: asks the kernel, then compares the counts, then searches. Not settled: it lets go of the lock."""
        step, watch = state.threads[i].step, state.watch
        if step == 'look' and state.lock is None:
            return self.move(state, i, 'locked', lock=i)
        if step == 'locked' and (state.changing == 0 or self.mistake == 'no-changing'):
            return self.move(state, i, 'asked')
        if step == 'asked' and watch.begun == watch.done:
            return self.move(state, i, 'settled')
        if step in ('locked', 'asked'):
            return self.move(state, i, 'look', lock=None)
        return None

    def search(self, state, i):
        for n, entry in enumerate(state.entries):
            if entry.state == 'live':
                if entry.number != state.page.number == state.threads[i].page:
                    raise Violation('T%d finds page %d, and page %d is there' % (i, entry.number, state.page.number))
                return self.move(state, i, 'use', entry=n, lock=None)
        free = next(n for n, entry in enumerate(state.entries) if entry.state == 'none')
        entries = put(state.entries, free, Entry('registering', 0)) if self.order[0] == 'enter' else \
            put(state.entries, free, Entry('outside', 0))
        step = self.order[1] if self.order[0] == 'enter' else self.order[0]
        return self.move(state, i, step, entry=free, entries=entries, lock=None)

    def miss(self, state, i):
        thread = state.threads[i]
        entry = state.entries[thread.entry]
        following = (self.order + ('use',))[self.order.index(thread.step) + 1]
        if thread.step in ('watch', 'register') and state.page.number == 0: # it fails
            return self.move(state, i, 'use', entries=put(state.entries, thread.entry, Entry('dead', 0)))
        if thread.step == 'watch':
            return self.move(state, i, following, page=state.page._replace(watched=True))
        if thread.step == 'register':
            return self.move(state, i, following, entries=put(state.entries, thread.entry, entry._replace(number=state.page.number)))
        if thread.step == 'enter':
            return self.move(state, i, following, entries=put(state.entries, thread.entry, entry._replace(state='registering')))
        alive = entry.state == 'registering' or (entry.state == 'dead' and self.mistake == 'revive')
        return self.move(state, i, following, entries=put(state.entries, thread.entry, entry._replace(state='live' if alive else 'dead')))

    def program(self, state, i):
        thread = state.threads[i]
        if thread.step == 'idle':
            return list(self.begin(state, i)) if thread.rounds > 0 else []
        if thread.step == 'taken':
            return [('can report it', self.move(state, i, 'queued', queued=state.queued + 1))]
        if thread.step == 'read': # the kernel counts it as over after the read
            return [('returns', self.move(state, i, 'idle', changing=state.changing - 1))]
        if thread.step == 'queued':
            return []
        if thread.step == 'use':
            return [('releases', self.move(state, i, 'idle', entry=None))]
        if thread.step == 'settled':
            return [('searches', self.search(state, i))]
        if thread.step in self.order:
            needs_lock = thread.step in ('enter', 'live')
            return [] if needs_lock and state.lock is not None else [(thread.step + 's', self.miss(state, i))]
        following = self.look(state, i)
        return [] if following is None else [('looks', following)]

    # --- the watching thread ---

    def read(self, state):
        """Reads one event, which lets its call return."""
        i = next(i for i, thread in enumerate(state.threads) if thread.step == 'queued')
        begun = state.watch.begun + (1 if self.mistake == 'late-begun' else 0)
        return self.move(state, i, 'read', queued=state.queued - 1)._replace(
            watch=state.watch._replace(step='read', begun=begun))

    def watching(self, state):
        watch = state.watch
        if watch.step == 'idle' and state.queued > 0:
            begun = watch.begun + (0 if self.mistake == 'late-begun' else 1)
            return [('W begins to read', state._replace(watch=watch._replace(step='reading', begun=begun)))]
        if watch.step == 'reading':
            if self.mistake == 'late-begun': # the call may return before the count
                return [('W reads', self.read(state)._replace(watch=watch._replace(step='uncounted')))]
            return [('W reads', self.read(state))]
        if watch.step == 'uncounted':
            return [('W counts the read', state._replace(watch=watch._replace(step='read', begun=watch.begun + 1)))]
        if watch.step == 'read' and self.mistake == 'early-done':
            return [('W is done', state._replace(watch=watch._replace(step='late', done=watch.done + 1)))]
        if watch.step in ('read', 'late') and state.lock is None:
            entries = tuple(entry._replace(state='dead') if entry.state in ('registering', 'live') else entry
                            for entry in state.entries)
            step = 'marked' if watch.step == 'read' else 'idle'
            return [('W marks', state._replace(entries=entries, watch=watch._replace(step=step)))]
        if watch.step == 'marked':
            return [('W is done', state._replace(watch=watch._replace(step='idle', done=watch.done + 1)))]
        return []

    # --- for the explorer ---

    def progress(self, state):
        return self.watching(state)

    def environment(self, state):
        return [('T%d %s' % (i, what), following) for i in range(len(state.threads))
                for what, following in self.program(state, i)]

    def check(self, state):
        pass # search() does it

    def check_quiet(self, state):
        stuck = [i for i, thread in enumerate(state.threads) if thread.step == 'queued']
        if stuck and state.lock is None and not self.environment(state):
            raise Violation('T%d never returns from munmap()' % stuck[0])


if __name__ == '__main__':
    sys.exit(tell(lambda: explore(Cache(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]))))
