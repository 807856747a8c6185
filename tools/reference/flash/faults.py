"""One runner of scenarios with faults. Whoever has promises to keep is an object with `flash`, copy(), restart() (after
a power cut), failed() (after an exception), which raise an error if a promise was broken: an Account of a journal, or a
client and its broker. Runs on MicroPython.

A way of cutting an operation of the flash is data, a list of a name and numbers:

torn, suffix, scattered, mixed, before, after, zeros: as the functions of nor; byte indexes count changed bytes only
undecided, and a seed: the same, and some of the bits read differently at each read
fading, wild: an interrupted erase, as the functions below
lost, and a seed: the operation has not begun, and some of the unsynced operations before it are lost
rot, and a number: the operation has not begun, and a programmed bit flips"""

import nor

ERASING = ("zeros", "fading", "wild")  # what an erase alone leaves
WITHIN = ("torn", "suffix", "scattered", "mixed", "undecided") + ERASING
MASKS = (0xFF, 0xA5, 0x5A, 0x0F, 0xF0, 0x01, 0x80, 0x7F, 0xFE, 0)
# Operations that fail while the device keeps running: a program or erase raises OSError or does nothing, a read raises;
# an interrupt comes before, or behind, any of them.
FAILURES = ("program", "ignore", "read", "interrupt", "interrupted")


class Operation:
    """An operation of the flash; before it: the flash, its undecided bits, the unsynced operations, and a copy of the
    life."""

    # No namedtuple: the build renames attributes, not the texts of their names.
    def __init__(self, name, at, old, new, flash, undecided, unsynced, promised):
        self.name, self.at, self.old, self.new = name, at, old, new
        self.flash, self.undecided, self.unsynced, self.promised = flash, undecided, unsynced, promised


# By name: the build renames functions, not the texts of their names.
_OUTCOMES = {
    "before": nor.before,
    "after": nor.after,
    "zeros": nor.zeros,
    "torn": nor.torn,
    "suffix": nor.suffix,
    "scattered": nor.scattered,
    "mixed": nor.mixed,
    "undecided": nor.undecided,
}


def outcome(way):
    """The function that returns the bytes after a cut from (old, new)."""
    name = way[0]
    if name in ("lost", "rot"):
        return nor.before
    if name in ("torn", "suffix"):
        return lambda old, new: _OUTCOMES[name](_place(old, new, way[1]), way[2])(old, new)
    if name == "fading":  # an erase that was still programming all bits to zero
        return lambda old, new: bytes([o & r for o, r in zip(old, nor.noise(way[1]))])
    if name == "wild":  # one that had set some of the bits to one
        return lambda old, new: bytes([r & 0xFF for _, r in zip(old, nor.noise(way[1]))])
    return _OUTCOMES[name](*way[1:]) if way[1:] else _OUTCOMES[name]


def cache_seed(way):
    """The seed that decides which unsynced operations are lost, None if none is."""
    return way[1] if way[0] == "lost" else None


def _place(old, new, index):
    places = [i for i in range(len(old)) if old[i] != new[i]] or [0]
    return places[index % len(places)]


def every_way(operation, apart=1):
    """Ways that cut an operation at each of its bytes, or at some that are `apart`."""
    changed = sum([o != n for o, n in zip(operation.old, operation.new)])
    yield ["before"]
    yield ["after"]
    for i in range(0, changed, apart):
        yield ["suffix" if i % 3 == 0 else "torn", i, MASKS[i % len(MASKS)]]
    for seed in range(3):
        yield ["scattered", seed]
        yield ["mixed", seed]
        if operation.unsynced:
            yield ["lost", seed]
        yield ["rot", seed * 1009]
    if operation.name == "erase":
        yield ["zeros"]
        yield ["fading", 1]
        yield ["wild", 1]


def one_way(operation, k):
    """One of them; which one depends on k."""
    ways = [way for way in every_way(operation, 17) if way[0] != "rot"]
    return ways[k % len(ways)]


class Tape:
    """Records every operation of the flash, or every so many, and a copy of `life` before it."""

    def __init__(self, flash, life, every=1):
        self.flash, self.life, self.every = flash, life, every
        self.operations = []
        self.seen = 0
        self.flash.watch = self._note

    def _note(self, name, at, old, new):
        flash = self.flash
        self.seen += 1
        if self.seen % self.every:
            return
        before = flash.snapshot(), flash.undecided.copy(), flash.unsynced()
        self.operations.append(Operation(name, at, old, new, *before, self.life.copy()))

    def stop(self):
        self.flash.watch = None
        return self.operations


def cut(flash, operation, way):
    """Restores the flash before the operation, and leaves what the cut leaves. Returns a copy of the life."""
    lost = cache_seed(way)
    if lost is None:
        flash.restore(operation.flash)
    else:
        flash.restore(operation.flash, operation.unsynced, lost)
    flash.undecided.update(operation.undecided)
    if lost is None:
        flash.overwrite(operation.at, operation.old, outcome(way)(operation.old, operation.new))
    return operation.promised.copy()


def cuts(life, work, ways, every=1):
    """Plays work(life) once, then cuts every so many of its operations in the ways that ways(operation, its number)
    gives. Yields the life that went on from there."""
    tape = Tape(life.flash, life, every)
    work(life)
    for k, operation in enumerate(tape.stop()):
        for way in ways(operation, k):
            after = cut(life.flash, operation, way)
            try:
                after.restart()
            except Exception as error:
                raise AssertionError("operation %d, %s at %d, %r: %r" % (k, operation.name, operation.at, way, error))
            yield after


class AtOperation:
    """Within a with statement operation k of the flash has this failure. left: below 0 afterwards if it came so far."""

    def __init__(self, flash, kind, k):
        self.flash, self.kind, self.left = flash, kind, k

    def __enter__(self):
        self.flash.fail_at(self.left, self.kind)

    def __exit__(self, *_):
        self.left = 0 if self.flash.fail_at(-1, self.kind) else -1


def failures(life, work, kinds=FAILURES, every=1, errors=(OSError, nor.Interrupted)):
    """Plays work() once for each kind of failure at every so many operations. Yields the life that went on from there.
    A kind is one of FAILURES, or a function of a number that returns such a thing as AtOperation, which may be about
    lines of code; errors: the exceptions that come of it."""
    flash = life.flash
    start = flash.snapshot()
    for kind in kinds:
        k, left = 0, -1
        while left < 0:
            flash.restore(start)
            after = life.copy()
            after.restart()
            failure = kind(k) if callable(kind) else AtOperation(flash, kind, k)
            error = None
            try:
                with failure:
                    work(after)
            except errors as raised:
                error = raised
            left = failure.left
            if error:
                try:
                    after.failed()
                except Exception as found:
                    raise AssertionError("%r at %d, %r: %r" % (kind, k, error, found))
            if left < 0:
                yield after
            k += every
