# Small files beside the configuration.

import json
import os
from errno import ENOENT


def beside(board, name):
    """The path of file `name` beside the configuration of `board`."""
    return board.config_path()[: -len("config.json")] + name


def exists(path):
    """False if there is no such file; True also if nobody can tell now."""
    try:
        os.stat(path)
        return True
    except OSError as e:
        return e.errno != ENOENT


def kept(path, default=""):
    """The text in a file, the default if there is none. Raises OSError if it cannot be read now: that is another case,
    and who goes on without it says why."""
    try:
        with open(path) as f:
            return f.read()
    except OSError as e:
        if e.errno != ENOENT:
            raise
        return default


def kept_json(path, default):
    """What the JSON in a file says; the default if there is none, or it is damaged. Raises OSError like kept()."""
    try:
        return json.loads(kept(path))
    except ValueError:
        return default


def write(path, text):
    """Writes a file whole or not at all, also if the power is cut. Raises OSError."""
    with open(path + ".part", "w") as f:
        f.write(text)
    os.rename(path + ".part", path)
