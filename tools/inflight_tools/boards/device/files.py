"""The files on a board: listing them, and replacing them all at once."""

import hashlib
import json
import math
from ast import literal_eval
from dataclasses import dataclass
from pathlib import PurePosixPath

from inflight_tools.boards.build.loading import PACKAGE
from inflight_tools.boards.frozen import MODULE

RECORD = "/lib/inflight.json"  # {path: SHA-256} of the application's files, so that a later deploy knows its own
_STAGE = "/lib/inflight.new"
_LIB = "/lib"
_FROZEN = (MODULE, PACKAGE, "codes")  # the last one is of the application
_SPARE_BLOCKS = 4  # for folders, and for what littlefs needs while it moves things

# Prints a line for each existing file. Buffers are small: a board may have little heap left. Most of the paths do not
# exist, and listing a folder is faster than trying to open them.
_HASH = """
import hashlib, os
from binascii import hexlify
b = bytearray(512)
d = {{}}
for p in {paths!r}:
 _feed()
 k, n = p.rsplit('/', 1)
 try:
  if k not in d:
   d[k] = ()
   d[k] = os.listdir(k or '/')
  if n not in d[k]:
   continue
  f = open(p, 'rb')
 except OSError:
  continue
 h = hashlib.sha256()
 n = f.readinto(b)
 while n:
  h.update(memoryview(b)[:n])
  n = f.readinto(b)
 f.close()
 print(p, hexlify(h.digest()).decode())
"""

_IDENTIFY = """
import gc, os, sys
gc.collect()
def _frozen():
 path, found = sys.path[:], None
 sys.path[:] = ['.frozen']
 for n in {modules!r}:
  known = sys.modules.pop(n, None)
  try: found = found or getattr(__import__(n), 'FROZEN', '')
  except ImportError: pass
  sys.modules.pop(n, None)
  if known: sys.modules[n] = known
 sys.path[:] = path
 return found
i = sys.implementation
print(repr((i[0], tuple(i[1])[:3], sys.platform, getattr(i, '_machine', '?'), sys.path, _frozen())))
"""

_CLEAR = """
import os
try:
 for n in os.listdir({stage!r}):
  _feed()
  print(end='.')
  os.remove({stage!r} + '/' + n)
 os.rmdir({stage!r})
except OSError:
 pass
s = os.statvfs('/')
print()
print(repr((s[1], s[3])))
"""

_MAKE = """
import os
for d in {folders!r}:
 try: os.mkdir(d)
 except OSError: pass
"""

# Renames all new files in the given order; then removes obsolete ones. Where flash is slow that takes longer than the
# watchdog, or Link, waits.
_SWITCH = """
import os
for a, b in {moves!r}:
 _feed()
 print(end='.')
 os.rename(a, b)
for p in {stale!r}:
 _feed()
 print(end='.')
 os.remove(p)
os.rmdir({stage!r})
"""

# Files, in this order, and folders that are empty then.
_REMOVE = """
import os
for p in {paths!r}:
 _feed()
 print(end='.')
 os.remove(p)
for d in {folders!r}:
 try: os.rmdir(d)
 except OSError: pass
"""

# Updates over MQTT: their slots go before what a cable brings. The slot that does not run makes space.
_SLOTS = """
import os
def _erase(p):
 for s in 'image', 'keys', 'errors', 'reason', 'offer':
  _feed()
  print(end='.')
  try: os.remove(p + '.' + s)
  except OSError: pass
_updated = 'update.0' in os.listdir('/')
"""
_MAKE_SPACE = """
try:
 from update_record import TRIAL, load
 r = load('')
 if _updated and r.state != TRIAL: _erase('/' + r.other)
except ImportError: pass
"""
# What is left of the records is the highest number that ran or failed: older releases stay refused. Twice, since a
# damaged record gives way to the other one.
_FORGET = """
def _forget():
 from update_record import Record, load, store
 old, new = load(''), Record()
 new.n, new.failed = old.n, max(old.release, old.failed)
 if not new.failed: return False
 if new.pack() != old.pack():
  store('', new)
  store('', new)
 return True
if _updated:
 try: kept = _forget()
 except ImportError: kept = False
 if not kept:
  for n in ('update.1', 'update.0'):
   try: os.remove('/' + n)
   except OSError: pass
 for n in ('/a', '/b', '/update'): _erase(n)
"""
# What was mounted may have been replaced.
_UNMOUNT = """
import sys
if '/app' in sys.path:
 try: from vfs import umount
 except ImportError: from os import umount
 sys.path.remove('/app')
 umount('/app')
"""


@dataclass(frozen=True)
class Identity:
    """The firmware on a board. `frozen`: what it tells about modules that are frozen into it, empty if it does not;
    None if there are none."""

    implementation: str
    version: tuple
    platform: str
    machine: str
    path: tuple
    frozen: str | None


def sha(content):
    return hashlib.sha256(content).hexdigest()


def identify(link):
    name, version, platform, machine, path, frozen = literal_eval(link.run(_IDENTIFY.format(modules=_FROZEN)))
    return Identity(name, version, platform, machine, tuple(path), frozen)


def hashes(link, paths):
    """{path: SHA-256 in hexadecimal} of each of `paths` that is a file on the board, in one round trip."""
    lines = link.run(_HASH.format(paths=sorted(paths))).splitlines()
    return dict(line.rsplit(" ", 1) for line in lines)


def read_record(link):
    """{path: SHA-256} written by an earlier deploy; empty if there is none, or it is damaged."""
    text = link.run(f"try: print(open({RECORD!r}).read())\nexcept OSError: pass")
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def prepare(link):
    """Removes leftovers of an interrupted deploy, and of updates. Returns (bytes in a block, blocks free)."""
    link.run(_SLOTS + _MAKE_SPACE)
    return literal_eval(link.run(_CLEAR.format(stage=_STAGE)).splitlines()[-1])


def forget_updates(link):
    """What is in /lib starts from now on, and no release that is older than one before."""
    link.run(_UNMOUNT + _SLOTS + _FORGET)


def blocks(contents, block):
    """How many blocks these files need while the old ones still exist."""
    return sum(max(1, math.ceil(len(content) / block)) for content in contents) + _SPARE_BLOCKS


def replace(link, files, stale, asides=(), progress=lambda path: None):
    """Writes `files` ({path: content}, in this order) to the staging folder. Then one command moves `asides`, renames
    the new files, and removes the paths in `stale`: if the cable is pulled before that, the board is unchanged."""
    link.run(_MAKE.format(folders=[*_folders(files), _STAGE]))
    staged = {f"{_STAGE}/{number}": path for number, path in enumerate(files)}
    link.put({place: files[path] for place, path in staged.items()}, lambda place: progress(staged[place]))
    link.run(_SWITCH.format(moves=[*asides, *staged.items()], stale=sorted(stale), stage=_STAGE))


def remove(link, paths):
    """Removes `paths`, and the record of an install last: if the cable is pulled, another run finds the rest."""
    folders = sorted({path.rpartition("/")[0] for path in paths} - {_LIB}, reverse=True)
    link.run(_REMOVE.format(paths=[*sorted(paths), RECORD], folders=folders))


def _folders(paths):
    """The folders above `paths`, outer ones first."""
    above = {str(folder) for path in paths for folder in PurePosixPath(path).parents}
    return sorted((above | {_LIB}) - {"/"})
