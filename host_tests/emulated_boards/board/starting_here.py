# Starts a board's application from the files in its flash, on MicroPython's unix port: the launcher, the modules that
# it chooses, the journal, as far as that needs nothing of the board itself. Prints what it found as JSON.
#
#   argv: the file of the file system; bytes of a page; the file of the partition for the journal, if there is one
#   The search path has tools/reference/flash.

import json
import os
import sys

import vfs

from nor import NorFlash

BLOCK = 4096


class Machine:
    # The parts that a start after a power cut uses.
    PWRON_RESET = 1

    class WDT:
        def __init__(self, timeout):
            pass

    class Timer:
        PERIODIC = 1

        def __init__(self, *_, **__):
            pass

    @staticmethod
    def reset_cause():
        return Machine.PWRON_RESET


def device(path, page):
    flash = NorFlash(os.stat(path)[6] // BLOCK, BLOCK, page)
    with open(path, "rb") as f:
        f.readinto(flash.data)
    return flash


def held(flash, partition):
    """Sequence numbers of the messages that the journal holds."""
    from inflight import Journal
    from inflight.journal import OUT  # as it is named on a board
    from storage import journal_flash

    journal = Journal(journal_flash(partition, None if partition else flash))
    found, seq = [], 0
    while journal.find(OUT, seq) >= 0:
        found.append(journal.found_seq)
        seq = journal.found_seq + 1
    return found


def main(path, page, partition=None):
    flash = device(path, int(page))
    partition = device(partition, int(page)) if partition else None
    vfs.umount("/")
    vfs.mount(vfs.VfsLfs2(flash, progsize=int(page)), "/")
    os.chdir("/")
    sys.path[:] = ["", ".frozen", "/lib"]
    sys.modules["machine"] = sys.modules["umachine"] = Machine
    del sys.modules["nor"]
    __import__("launch").main("")
    found = {"place": sys.path[0]}
    import app
    import node

    found |= {"version": node.VERSION, "modules": [app.__file__, node.__file__], "held": held(flash, partition)}
    for name in ("update.0", "update.1"):
        if name in os.listdir("/"):
            with open("/" + name, "rb") as f:
                found[name] = f.read().hex()
    print(json.dumps(found))


main(*sys.argv[1:])
