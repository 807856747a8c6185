# Prints how many blocks an image may take in a slot of a Pico W, as its firmware counts them, beside a journal. Runs on
# MicroPython's unix port: its littlefs is the Pico's, with its account of free blocks.
#
#   argv: the file of the file system, as `inflight board image` builds it; or a JSON file, {path: bytes} of what a
#   cable brings. The blocks of the journal.
#   The search path has firmware, lib and tools/reference/flash.

import json
import os
import sys

import vfs

from nor import NorFlash
from slot import space

_BLOCKS = 212
_STAGE = "/lib/inflight.new"  # a cable brings all files here, then they are moved


def make_folders(path):
    at = path.find("/", 1)
    while at > 0:
        parent, _, name = path[:at].rpartition("/")
        if name not in os.listdir(parent or "/"):
            os.mkdir(path[:at])
        at = path.find("/", at + 1)


def write(path, size):
    make_folders(path)
    with open(path, "wb") as f:
        f.write(bytes(size))


def staged(path):
    return "%s/%s" % (_STAGE, path.replace("/", "!"))


def bring(sizes):
    for path, size in sizes.items():
        write(staged(path), size)
    for path in sizes:
        make_folders(path)
        os.rename(staged(path), path)
    os.rmdir(_STAGE)


def main(path, blocks):
    flash = NorFlash(_BLOCKS, 4096, 256)
    sizes = None
    with open(path, "rb") as f:
        if path.endswith(".json"):
            sizes = json.load(f)
        else:
            f.readinto(flash.data)
    vfs.umount("/")
    if sizes:
        vfs.VfsLfs2.mkfs(flash, progsize=256)
    vfs.mount(vfs.VfsLfs2(flash, progsize=256), "/")
    if sizes:
        bring(sizes)
    for n in range(int(blocks)):
        write("/journal/%02x%02x-54-5fee6600-e766" % (n, int(blocks)), 4096)
    print(space("/a")[1])


main(*sys.argv[1:])
