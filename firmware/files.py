# Small files beside the configuration.

import json
import os
from errno import ENOENT


def beside(board, name):
    """The path of file `name` beside the configuration of `board`."""
    return board.config_path()[: -len("config.json")] + name


def exists(path):
    try:
        os.stat(path)
        return True
    except OSError:
        return False


def read_file(path, default=""):
    """The text in a file or, with another default, what its JSON says; the default if there is none, or it is
    damaged."""
    try:
        with open(path) as f:
            return f.read() if default == "" else json.load(f)
    except (OSError, ValueError):
        return default


def kept(path):
    """What the JSON in a file says, {} if there is none. Raises ValueError if it is damaged, OSError if it cannot be
    read now: then nothing must replace it."""
    try:
        with open(path) as f:
            return json.load(f)
    except OSError as e:
        if e.errno != ENOENT:
            raise
        return {}


def write(path, text):
    """Writes a file whole or not at all, also if the power is cut. Raises OSError."""
    with open(path + ".part", "w") as f:
        f.write(text)
    os.rename(path + ".part", path)
