# Chooses the application that starts. No update replaces this module, starting, image, update_record and trial; they
# import nothing of the application, since a slot has modules of the same names.

import os
import sys


def main(folder=None):
    """Puts the slot that is to start, in `folder`, before all others on the search path. folder: that of the records;
    default: that of this board."""
    sys.modules.pop("launch", None)
    if folder is None:
        folder = os.getenv("INFLIGHT_HOME") if hasattr(os, "getenv") else ""
    try:
        os.stat("%s/update.0" % folder)
    except OSError:
        return  # never updated
    from starting import slot

    name = slot(folder)
    if name:
        place = "%s/%s" % (folder, name)
        try:
            from image import mount

            mount(place + ".image", place)
            sys.path.insert(0, place)
        except (ImportError, OSError, ValueError) as e:
            # It cannot be read, or nothing can be mounted: what is in /lib starts, and a trial has one start less.
            print("inflight: starting from /lib, not from %s.image:" % place, e)
    for module in ("starting", "image", "trial", "update_record"):
        sys.modules.pop(module, None)
