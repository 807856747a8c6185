# What launch needs of a board while a release is tried; see boards/README.md.


def was_cut(folder):
    try:
        with open(folder + "/next-start") as f:
            return f.read() in ("", "power-cut")
    except OSError:
        return False


def watchdog():
    pass  # the process supervisor handles a process that hangs
