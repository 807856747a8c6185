# Small files beside the configuration.

import json
import os


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


def write(path, text):
    """Writes a file whole or not at all, also if the power is cut. Raises OSError."""
    with open(path + ".part", "w") as f:
        f.write(text)
    os.rename(path + ".part", path)
