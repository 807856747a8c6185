"""What a power cut may leave of a folder, as far as POSIX promises nothing else: a model of a disk.

A file has its content if it was made durable after its last change; otherwise it may be empty, cut, full of zeros, or
whole. A name in a folder is there if the folder was made durable after it had appeared; otherwise it may be missing. A
file that was moved is at one of both places."""

import contextlib
import os
import shutil
import stat
from pathlib import Path


class Disk:
    """Remembers what of `folder` the process makes durable, from now on. What is there is."""

    def __init__(self, folder, monkeypatch):
        self._folder, self._files, self._names, self._before = folder, set(), {}, lambda: None
        for path in (folder, *folder.rglob("*")):
            self._keep(path, path.stat())
        fsync = os.fsync

        def keep(fd):
            path = Path(os.readlink(f"/proc/self/fd/{fd}"))
            if folder in (path, *path.parents):
                self._before()
                self._keep(path, os.fstat(fd))
            fsync(fd)

        monkeypatch.setattr(os, "fsync", keep)

    def before_each(self, call):
        """From now on `call` is called before anything becomes durable: with the tables half written."""
        self._before = call

    def _keep(self, path, told):
        if stat.S_ISDIR(told.st_mode):
            self._names[path] = {entry.name: entry.inode() for entry in os.scandir(path)}
        else:
            self._files.add(_content(told))

    def image(self, to, dice):
        """Copies the folder to `to`, as a power cut now may leave it. dice: a Random. Again if Spark has moved a file
        meanwhile: it would be at neither place."""
        self._moved = None
        while self._moved != (there := self._places()):
            self._moved = there
            shutil.rmtree(to, ignore_errors=True)
            with contextlib.suppress(FileNotFoundError):
                self._copy(self._folder, to, dice)
                self._move(to, dice)

    def _places(self):
        """{inode: where it is}"""
        found = {}
        for folder in [self._folder, *(path for path in self._folder.rglob("*") if path.is_dir())]:
            for entry in os.scandir(folder):
                if not entry.is_dir():
                    found.setdefault(entry.inode(), []).append(Path(entry.path))
        return found

    def _move(self, to, dice):
        was = {inode: folder / name for folder, names in self._names.items() for name, inode in names.items()}
        for inode, (path, *_) in self._moved.items():
            old = was.get(inode)
            if old and old != path and not old.exists() and (to / old.relative_to(self._folder).parent).is_dir():
                new = to / path.relative_to(self._folder)
                if not new.exists() or dice.random() < 0.5:
                    new.unlink(missing_ok=True)
                    self._content(path, to / old.relative_to(self._folder), dice)

    def _copy(self, folder, to, dice):
        to.mkdir(parents=True)
        names = self._names.get(folder, {})
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            if names.get(entry.name) == entry.inode() or dice.random() < 0.5:
                path = Path(entry.path)
                if entry.is_dir():
                    self._copy(path, to / entry.name, dice)
                else:
                    self._content(path, to / entry.name, dice)

    def _content(self, path, to, dice):
        shutil.copy2(path, to)
        if _content(path.stat()) not in self._files:
            data = to.read_bytes()
            to.write_bytes(dice.choice((data, b"", data[: len(data) // 2], bytes(len(data)))))


def _content(told):
    return told.st_ino, told.st_mtime_ns, told.st_size
