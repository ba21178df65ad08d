#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A window of the RDMA card: a driver that stores entries to slots, and a card that copies them at any time.

usage: window.py SLOTS ENTRIES LIVES [MISTAKE]

Each entry is one word of a header and two of payload, which the driver stores in any order between BEGIN and END, or it passes its
slot. Indices begin again after INDICES entries. The driver stores to a slot whether or not the card has looked at what is there.
The queue pair is destroyed LIVES - 1 times, and the next one gets its window and begins with index 0. What the card takes for
a copy must be of its entry; whatever it does not find it reads from memory, which is not in the model. MISTAKE plants one, to
see that the check finds it:

  end-first     the driver stores END before the words, and rings the doorbell before them, too
  begin-late    the driver stores BEGIN after the words
  no-clear      an entry that passes its slot leaves END there
  no-look       the card does not look at BEGIN
  early-look    the card loads BEGIN before the words
  unchecked     the card copies the payload without looking at the indices again
  no-zero       a window that is given again keeps its indices
  early-bell    not a mistake: the driver rings the doorbell before it stores
  careful       not a mistake: the driver stores to a slot only when its entry is complete, as this library's does
"""
import sys
from collections import namedtuple

from explore import Violation, explore, tell

INDICES = 8  # a multiple of the slots; stands for 2^32
RING = 3     # entries that may be outstanding
HEADER, PAYLOAD = (0,), (1, 2)
WORDS = HEADER + PAYLOAD

# posted: entries of this life; rung: those that the card knows of. step: idle, storing (the words and indices that are still to be stored, in `left`). has: of the
# entry in each slot, how many were posted with it; 0: none.
Driver = namedtuple('Driver', 'life posted rung step left has')
# begin, end: indices behind the entry; 0: none. words: (life, how many were posted with it).
Slot = namedtuple('Slot', 'begin end words')
# next: entries that it has begun. step: idle, copy (the words in `left` are to be loaded), look (BEGIN is to be loaded), between
# (the header was copied, the payload was not). part: what is copied. got: the words. seen: the BEGIN of an early look.
Card = namedtuple('Card', 'next step part left got seen')
State = namedtuple('State', 'driver slots card')

IDLE = Card(0, 'idle', None, (), (), None)
EMPTY = Slot(0, 0, (None,) * len(WORDS))


def put(items, index, item):
    return items[:index] + (item,) + items[index + 1:]


class Window:
    MISTAKES = ('end-first', 'begin-late', 'no-clear', 'no-look', 'early-look', 'unchecked', 'no-zero')

    def __init__(self, slots, entries, lives, mistake=''):
        self.entries, self.lives, self.mistake, self.slots = entries, lives, mistake, slots
        self.initial = State(Driver(0, 0, 0, 'idle', (), (0,) * slots), (EMPTY,) * slots, IDLE)

    def slot_of(self, entry):
        return (entry - 1) % self.slots

    # --- the driver ---

    def order(self, left):
        """What may be stored next: BEGIN, then the words in any order, then END."""
        words = tuple(each for each in left if each in WORDS)
        first = {'end-first': 'end', 'begin-late': None}.get(self.mistake, 'begin')
        if first in left:
            return (first,)
        if self.mistake == 'end-first' and 'begin' in left:
            return ('begin',)
        if words:
            return words
        return ('begin',) if 'begin' in left else ('end',)

    def store(self, state, what):
        driver = state.driver
        number = self.slot_of(driver.posted + 1)
        slot = state.slots[number]
        behind = (driver.posted + 1) % INDICES
        if what in WORDS:
            slot = slot._replace(words=put(slot.words, what, (driver.life, driver.posted + 1)))
        elif what == 'clear':
            slot = slot._replace(end=0)
        else:
            slot = slot._replace(**{what: behind})
        left = tuple(each for each in driver.left if each != what)
        driver = driver._replace(left=left)
        if not left:
            driver = driver._replace(posted=driver.posted + 1, rung=driver.posted + 1, step='idle')
        return 'driver stores %s of %d' % (what, driver.posted + (1 if left else 0)), \
            State(driver, put(state.slots, number, slot), state.card)

    def begins(self, state):
        """The next entry is stored to its slot, or passes it."""
        driver = state.driver
        entry = driver.posted + 1
        number = self.slot_of(entry)
        in_use = driver.has[number] > state.card.next - (state.card.step != 'idle')
        out = []
        if entry % INDICES != 0 and not (self.mistake == 'careful' and in_use):
            has = put(driver.has, number, entry)
            rung = entry if self.mistake in ('end-first', 'early-bell') else driver.rung
            stores = driver._replace(step='storing', left=('begin', 'end') + WORDS, has=has, rung=rung)
            out.append(('driver begins %d' % entry, state._replace(driver=stores)))
        passes = driver._replace(posted=entry, rung=entry)
        if driver.has[number] and self.mistake != 'no-clear' and not (self.mistake == 'careful' and in_use):
            passes = driver._replace(step='storing', left=('clear',), has=put(driver.has, number, 0))
        out.append(('driver passes with %d' % entry, state._replace(driver=passes)))
        return out

    # --- the card ---

    def copies(self, state, part):
        """Loads END; if it is the entry's, begins a copy."""
        card = state.card
        entry = card.next if part == PAYLOAD else card.next + 1
        slot = state.slots[self.slot_of(entry)]
        begun = card._replace(next=entry)
        if slot.end != entry % INDICES or entry % INDICES == 0:
            return 'card does not find %d' % entry, state._replace(card=IDLE._replace(next=entry))
        seen = slot.begin if self.mistake == 'early-look' else None
        return 'card finds %d' % entry, state._replace(card=begun._replace(step='copy', part=part, left=part, got=(), seen=seen))

    def loads(self, state, word):
        card = state.card
        got = card.got + (state.slots[self.slot_of(card.next)].words[word],)
        left = tuple(each for each in card.left if each != word)
        return 'card loads word %d' % word, state._replace(card=card._replace(got=got, left=left, step='copy' if left else 'look'))

    def looks(self, state):
        card, life = state.card, state.driver.life
        begin = card.seen if self.mistake == 'early-look' else state.slots[self.slot_of(card.next)].begin
        unchecked = self.mistake == 'no-look' or (self.mistake == 'unchecked' and card.part == PAYLOAD)
        if begin != card.next % INDICES and not unchecked:
            return 'card does not believe it', state._replace(card=IDLE._replace(next=card.next))
        if any(word != (life, card.next) for word in card.got):
            raise Violation('the card has %s of entry %s' % (card.got, (life, card.next)))
        after = IDLE._replace(next=card.next, step='between' if card.part == HEADER else 'idle')
        return 'card believes it', state._replace(card=after)

    # --- what happens by itself, and what others do ---

    def progress(self, state):
        driver, card = state.driver, state.card
        out = []
        if driver.step == 'storing':
            what = ('clear',) if driver.left == ('clear',) else self.order(driver.left)
            out += [self.store(state, each) for each in what]
        if card.step == 'idle' and card.next < driver.rung:
            out.append(self.copies(state, HEADER))
        elif card.step == 'between' and self.mistake == 'unchecked':
            out.append(('card copies the payload', state._replace(card=card._replace(step='copy', part=PAYLOAD, left=PAYLOAD, got=()))))
        elif card.step == 'between':
            out.append(self.copies(state, PAYLOAD))
        elif card.step == 'copy':
            out += [self.loads(state, word) for word in card.left]
        elif card.step == 'look':
            out.append(self.looks(state))
        return out

    def environment(self, state):
        driver, card = state.driver, state.card
        out = []
        if driver.step == 'idle' and driver.posted < self.entries and driver.posted - card.next < RING:
            out += self.begins(state)
        if driver.step == 'idle' and driver.life + 1 < self.lives:
            slots = tuple(slot if self.mistake == 'no-zero' else slot._replace(begin=0, end=0) for slot in state.slots)
            again = Driver(driver.life + 1, 0, 0, 'idle', (), (0,) * self.slots)
            out.append(('the queue pair is made again', State(again, slots, IDLE)))
        return out

    # --- what must be so ---

    def check(self, state):
        pass  # looks() does it

    def check_quiet(self, state):
        if state.card.next != state.driver.posted:
            raise Violation('entry %d is posted, and the card does nothing' % (state.card.next + 1))


def main(arguments):
    return tell(lambda: explore(Window(*map(int, arguments[:3]), *arguments[3:])))


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
