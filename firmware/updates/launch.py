# Chooses the application that starts. No update replaces this module, starting, image, update_record and trial; they
# import nothing of the application, since an image has modules of the same names.

import os
import sys


def main(folder=None):
    """Puts the application that is to start before all others on the search path, if it is in an image in `folder`: the
    slot that a release is in, or what a cable has brought as one file. folder: that of the records; default: that of
    this board."""
    sys.modules.pop("launch", None)
    if folder is None:
        folder = os.getenv("INFLIGHT_HOME") if hasattr(os, "getenv") else ""
    names = ["app"] if _exists("%s/app.image" % folder) else []
    if _exists("%s/update.0" % folder):  # else it was never updated
        from starting import slot

        name = slot(folder)
        if name:
            names.insert(0, name)
    for name in names:
        place = "%s/%s" % (folder, name)
        try:
            import image

            image.mount(place + ".image", place)
            del image.mount  # the file system stays, and holds its module
            sys.path.insert(0, place)
            break
        except (ImportError, OSError, ValueError) as e:
            # It cannot be read, or nothing can be mounted: the next one starts, or what is in /lib. A trial has one
            # start less.
            print("inflight: not starting from %s.image:" % place, e)
    for module in ("starting", "image", "trial", "update_record"):
        sys.modules.pop(module, None)


def _exists(path):
    try:
        os.stat(path)
        return True
    except OSError:
        return False
