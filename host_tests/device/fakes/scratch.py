"""What leaves nothing behind when its `with` ends: a folder, and attributes that are replaced."""

import os


def unused():
    """A path that no file has."""
    return "inflight-test-" + "".join("%02x" % b for b in os.urandom(6))


def remove(path):
    """Removes the file or folder, if there is one, with all that is in it."""
    try:
        is_folder = os.stat(path)[0] & 0x4000
    except OSError:
        return
    if is_folder:
        for name in os.listdir(path):
            remove(path + "/" + name)
        os.rmdir(path)
    else:
        os.remove(path)


def write(path, data):
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


def read(path):
    with open(path, "rb") as f:
        return f.read()


class Folder:
    """`with Folder() as folder`: a new folder, `path`. Files in it have names below that."""

    base = ""

    def __enter__(self):
        self.path = self.base + unused()
        os.mkdir(self.path)
        return self

    def __exit__(self, *_):
        remove(self.path)

    def at(self, name):
        return self.path + "/" + name

    def write(self, name, data):
        write(self.at(name), data)

    def names(self):
        return sorted(os.listdir(self.path))


class Replaced:
    """`with Replaced(of, name=value)`: meanwhile a module, a class or an object has these attributes."""

    def __init__(self, of, **attributes):
        self._of, self._attributes = of, attributes

    def __enter__(self):
        self._before = {name: getattr(self._of, name) for name in self._attributes if hasattr(self._of, name)}
        for name in self._attributes:
            setattr(self._of, name, self._attributes[name])

    def __exit__(self, *_):
        for name in self._attributes:
            if name in self._before:
                setattr(self._of, name, self._before[name])
            else:
                delattr(self._of, name)
