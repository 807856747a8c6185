# A fake board on MicroPython's unix port: a littlefs in a file is its flash; it runs boot.py and main.py, and has a raw
# REPL on stdin and stdout. SIGINT is Ctrl-C. A reset ends the process with status 75.
#
#   argv: the file of the flash; sys.platform; bytes of the ROM file system; the number of writes after which nothing
#   reaches the flash, as after a power cut

import os
import sys

import vfs

BLOCK = 4096
RESET = 75
VERSION = (1, 25, 0)


class Flash:
    def __init__(self, path):
        self.file = open(path, "r+b")  # noqa: SIM115
        self.blocks = self.file.seek(0, 2) // BLOCK
        self.left = int(sys.argv[4])

    def readblocks(self, n, buf, offset=0):
        self.file.seek(n * BLOCK + offset)
        self.file.readinto(buf)

    def writeblocks(self, n, buf, offset=0):
        self.left -= 1
        if self.left < 0:
            return
        self.file.seek(n * BLOCK + offset)
        self.file.write(buf)
        self.file.flush()

    def ioctl(self, op, arg):
        if op == 4:
            return self.blocks
        if op == 5:
            return BLOCK
        return 0


class Machine:
    @staticmethod
    def reset():
        sys.exit(RESET)


class Implementation(tuple):
    _machine = os.getenv("STANDIN_MACHINE")
    name = "micropython"
    version = VERSION
    _mpy = sys.implementation._mpy


class Sys:
    """The module sys of a board."""

    def __getattr__(self, name):
        return getattr(sys, name)

    platform = sys.argv[2]
    implementation = Implementation(("micropython", VERSION))


class Vfs:
    """The module vfs, with a ROM file system of `size` bytes."""

    def __init__(self, file, size):
        self.file, self.memory = file, bytearray(size)
        file.seek(0)
        file.readinto(self.memory)

    def __getattr__(self, name):
        return getattr(vfs, name)

    def rom_ioctl(self, op, *args):
        if op == 1:
            return 1
        if op == 2:
            return memoryview(self.memory)
        if op in (3, 6):
            return BLOCK
        if op == 4:
            self.memory[args[1] : args[1] + len(args[2])] = args[2]
            return 0
        self.file.seek(0)
        self.file.write(self.memory)
        self.file.flush()
        return 0


def put(data):
    sys.stdout.buffer.write(data)


def take():
    byte = sys.stdin.buffer.read(1)
    if not byte:
        sys.exit(0)
    return byte


def run(source, name, names):
    """Runs a file or a command. Returns the traceback of an exception."""
    import io

    try:
        exec(compile(source, name, "exec"), names)
    except BaseException as e:
        if isinstance(e, SystemExit) and e.args[0] == RESET:
            raise
        text = io.StringIO()
        sys.print_exception(e, text)
        return text.getvalue().replace("\n", "\r\n").encode()
    return b""


def start(name):
    try:
        with open(name) as f:
            source = f.read()
    except OSError:
        return
    put(run(source, name, {"__name__": "__main__"}))


def command():
    source = bytearray()  # bytes would be copied for each byte, and collected
    while True:
        byte = take()
        if byte > b"\r":
            source += byte
        elif byte == b"\x05":  # raw paste: the bytes A and 1 follow; the answer: not supported
            take()
            take()
            put(b"R\x00")
        elif byte == b"\x02":
            return None
        elif byte == b"\x01":
            source = bytearray()
            put(b"raw REPL; CTRL-B to exit\r\n>")
        elif byte == b"\x04":
            return bytes(source)
        elif byte != b"\r" or source:
            source += byte


def import_frozen(name, *more):
    """As __import__(), on a board that has a module frozen in that tells what else is."""
    if name == "inflight_frozen" and sys.path[0] == ".frozen" and os.getenv("STANDIN_FROZEN"):
        return Frozen
    return __import__(name, *more)


class Frozen:
    FROZEN = os.getenv("STANDIN_FROZEN")


def raw(names):
    put(b"raw REPL; CTRL-B to exit\r\n>")
    while True:
        source = command()
        if source is None:
            return
        put(b"OK")
        problem = run(source, "<stdin>", names)
        put(b"\x04" + problem + b"\x04>")


def repl():
    names = {"__name__": "__main__", "__import__": import_frozen}
    put(b"MicroPython stand-in\r\n>>> ")
    while True:
        try:
            if take() == b"\x01":
                raw(names)
        except KeyboardInterrupt:
            put(b"\r\n>>> ")


def copy_configuration():
    """The unix board needs its configuration beside its journal, which is in /home: this littlefs is too slow."""
    try:
        with open("/config.json", "rb") as source, open("/home/config.json", "wb") as copy:
            copy.write(source.read())
    except OSError:
        pass  # there is none yet


def boot():
    flash = Flash(sys.argv[1])
    rom = open(sys.argv[1] + ".rom", "r+b") if sys.argv[3] != "0" else None  # noqa: SIM115
    home = vfs.VfsPosix(os.getenv("STANDIN_HOME"))
    vfs.umount("/")
    try:
        vfs.mount(flash, "/")
    except OSError:
        vfs.VfsLfs2.mkfs(flash)
        vfs.mount(flash, "/")
    os.chdir("/")
    vfs.mount(home, "/home")
    copy_configuration()
    sys.path[:] = ["", ".frozen", "/lib"]
    sys.modules["machine"] = Machine
    sys.modules["sys"] = Sys()
    if rom:
        sys.modules["vfs"] = fake = Vfs(rom, int(sys.argv[3]))
        try:
            vfs.mount(vfs.VfsRom(fake.memory), "/rom")
            sys.path[2:2] = ["/rom", "/rom/lib"]
        except OSError:
            pass
    put(b"\0")  # from here on Ctrl-C is handled
    start("boot.py")
    start("main.py")


work = boot
while True:
    try:  # noqa: SIM105
        work()
    except KeyboardInterrupt:  # also while a prompt is written
        pass
    work = repl
