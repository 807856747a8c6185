"""A disk without space. Java, delta-rs and Python each tell it in the words of the system."""

import errno
import os
import re
import shutil

_FULL = re.compile("|".join(re.escape(os.strerror(number)) for number in (errno.ENOSPC, errno.EDQUOT)), re.IGNORECASE)


def full_folder(text, folders):
    """The one of `folders` that has the least space, if the text of an error tells that there is none; else None."""
    present = [folder for folder in map(str, folders) if os.path.isdir(folder)]  # not those that are URIs
    if not (present and _FULL.search(text)):
        return None
    return min(present, key=lambda folder: shutil.disk_usage(folder).free)
