"""Installs the application on a board: checks everything before the first write."""

import json
from dataclasses import dataclass, field

from inflight_tools.boards import slots
from inflight_tools.boards.device import files, rom
from inflight_tools.boards.device.link import DeviceError
from inflight_tools.boards.frozen import said
from inflight_tools.boards.images.variants import boards

OLDEST = (1, 22)  # MicroPython
_LIB = "/lib"
_FROZEN = ".frozen"  # stands on the search path for modules in the firmware
_IMAGES = ("/a", "/b", "/app")  # the slots of updates over MQTT, which end with this, and what an earlier one brought


@dataclass
class Plan:
    """The changes to make. Paths are those on the board."""

    write: dict = field(default_factory=dict)  # {path: content}
    rom: bytes = b""  # an image to write first; empty if none has to be
    stale: list = field(default_factory=list)  # of an older version: to be removed
    asides: list = field(default_factory=list)  # (path, where it is kept): somebody else's boot.py, main.py
    same: int = 0


def install(link, board, application, settings, in_rom=False, say=lambda text: None):
    """Installs `application` and `settings` ({path: content} each) on the board of folder `board`, copying changed
    files that its firmware has not frozen in; with `in_rom` the modules go to the ROM file system. Returns the executed
    Plan. Raises DeviceError."""
    identity = files.identify(link)
    _check(identity, board)
    recorded = files.read_record(link)
    left = application if identity.frozen is None else _not_frozen(application, identity.frozen, board, say)
    in_place = _rom_paths(link, left) if in_rom else {}
    wanted = slots.packed({in_place.get(path, path): content for path, content in left.items()}, board)
    search = [folder for folder in identity.path if folder not in _IMAGES]
    frozen = [path for path in application if path not in left]
    shadows = _shadows(search, _modules(wanted), frozen)
    asides = [f"{path}.old" for path in wanted if _at_root(path)]
    found = files.hashes(link, {*wanted, *settings, *recorded, *shadows, *asides})
    plan = _plan(wanted, settings, recorded, shadows, found, in_rom)
    if plan.write or plan.stale or plan.rom:
        _carry_out(link, plan, say)
        _verify(link, plan.write | {path: wanted[path] for path in wanted if plan.rom and path.startswith(rom.LIB)})
    files.forget_updates(link)
    return plan


def has_application(recorded):
    """Whether an earlier install, which recorded these paths, installed the application, which starts by itself."""
    return any(map(_at_root, recorded))


def remove(link):
    """Removes the files of an install. Returns (paths removed, paths kept, since they have changed). Raises
    DeviceError."""
    recorded = files.read_record(link)
    if not recorded:
        raise DeviceError("nothing to remove: there is no library that `inflight board library --port` brought")
    if has_application(recorded):
        raise DeviceError("the application is on the board, and needs the library")
    found = files.hashes(link, recorded)
    removed = [path for path in recorded if found.get(path) == recorded[path]]
    files.remove(link, removed)
    return removed, [path for path in recorded if path in found and path not in removed]


def _not_frozen(application, told, board, say):
    try:
        frozen = said(told)
        left = frozen.left(application, board)
    except ValueError as e:
        raise DeviceError(str(e)) from None
    say(f"the firmware has the {frozen.what} frozen in")
    return left


def _modules(files):
    return [path for path in files if path.endswith(".mpy")]


def _rom_paths(link, application):
    """{path: where it is in the ROM file system} of the modules that go there."""
    modules = {path: application[path] for path in _modules(application)}
    if not modules:
        raise DeviceError("the firmware has the application frozen in: leave --romfs out")
    try:
        return {path: rom.LIB + path.removeprefix(_LIB) for path in rom.fitting(modules, rom.size(link))}
    except ValueError as e:
        raise DeviceError(str(e)) from None


def _check(identity, board):
    running = f"{identity.implementation} {'.'.join(map(str, identity.version))} on {identity.machine}"
    if identity.platform != boards()[board].platform:
        fitting = [name for name, other in boards().items() if other.platform == identity.platform]
        hint = f"--board {fitting[0]}" if fitting else f"there is no board folder for {identity.platform}"
        raise DeviceError(f"--board {board} does not fit: it is {running}: {hint}")
    if identity.implementation != "micropython" or identity.version < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        advice = "`inflight board flash` writes it"
        raise DeviceError(f"it runs {running}, MicroPython {oldest} is needed at least: {advice}")


def _at_root(path):
    return path.count("/") == 1


def _shadows(search, modules, frozen=()):
    """{path: module} of the files that would be imported instead of `modules`, or of those that are `frozen`, on the
    search path `search`."""
    for home in (_LIB, *([_FROZEN] if frozen else ())):
        if home not in search:
            raise DeviceError(f"{home} is not on its sys.path: flash a stock firmware")
    if rom.LIB not in search:  # that is where a ROM file system will be, once it holds something
        at = search.index(_LIB)
        search = [*search[:at], rom.LIB, *search[at:]]
    homes = {module: rom.LIB if module.startswith(rom.LIB) else _LIB for module in modules}
    homes |= {_FROZEN + module.removeprefix(_LIB): _FROZEN for module in _modules(frozen)}
    found = {}
    for module, home in homes.items():
        name = module.removeprefix(home).removesuffix(".mpy")
        earlier = [folder.rstrip("/") for folder in search[: search.index(home)] if folder != _FROZEN]
        paths = [f"{folder}{name}{suffix}" for folder in earlier for suffix in (".py", ".mpy")]
        if home != _FROZEN:
            paths.append(f"{home}{name}.py")
        found |= dict.fromkeys(paths, module)
    return found


def _plan(wanted, settings, recorded, shadows, found, in_rom):
    plan = Plan()
    hiding = False  # something in the ROM file system, which is written anew
    hashes = {path: files.sha(content) for path, content in wanted.items()}
    modified = {path for path in recorded if path in found and found[path] != recorded[path]}
    plan.stale = [path for path in recorded if path in found and path not in wanted and path not in modified]
    for path, module in shadows.items():
        if path not in found or path in plan.stale:
            continue
        if path.startswith(rom.LIB):
            if in_rom:
                hiding = True
                continue
            raise DeviceError(
                f"the application is in its ROM file system too, and {path} comes first: deploy with --romfs"
            )
        if not path.startswith(f"{_LIB}/inflight/"):
            raise DeviceError(
                f"{path} on the board would be imported instead of {module}: move it away "
                f"(`mpremote cp :{path} .`, `mpremote rm :{path}`)"
            )
        plan.stale.append(path)  # the library as mip installs it
    changed = {path: content for path, content in wanted.items() if found.get(path) != hashes[path]}
    plan.same = len(wanted) - len(changed)
    if hiding or any(path.startswith(rom.LIB) for path in changed):
        plan.rom = rom.image({p.removeprefix("/rom"): c for p, c in wanted.items() if p.startswith(rom.LIB)})
    plan.write = {path: content for path, content in changed.items() if not path.startswith(rom.LIB)}
    plan.asides = [
        (path, f"{path}.old") for path in plan.write if _at_root(path) and path in found and path not in recorded
    ]
    for path, aside in plan.asides:
        if aside in found:
            raise DeviceError(
                f"{path} on the board is not of this application, and {aside} is taken: remove one of them"
            )
    own = {path: digest for path, digest in hashes.items() if not path.startswith(rom.LIB)}
    if plan.stale or any(recorded.get(path) != digest for path, digest in own.items()):
        # First, and including obsolete files: power may be cut between the moves.
        old = {path: recorded[path] for path in plan.stale if path in recorded}
        plan.write = {files.RECORD: json.dumps(own | old).encode(), **plan.write}
    plan.write |= {path: content for path, content in settings.items() if found.get(path) != files.sha(content)}
    return plan


def _carry_out(link, plan, say):
    block, free = files.prepare(link)
    if (needed := files.blocks(plan.write.values(), block)) > free:
        raise DeviceError(
            f"not enough space: {needed * block // 1024} KiB needed, {free * block // 1024} KiB free: remove files of "
            "yours (`mpremote ls`, `mpremote rm`); nothing was changed"
        )
    if plan.rom:
        say(f"{len(plan.rom)} bytes of ROM image")
        rom.write(link, plan.rom)
    files.replace(link, plan.write, plan.stale, plan.asides, lambda path: say(f"{path}  {len(plan.write[path])}"))
    for path, aside in plan.asides:
        say(f"{path} was not of this application: kept as {aside}")
    for path in plan.stale:
        say(f"{path} removed")


def _verify(link, wanted):
    found = files.hashes(link, wanted)
    wrong = [path for path, content in wanted.items() if found.get(path) != files.sha(content)]
    if wrong:
        raise DeviceError(
            f"{', '.join(wrong)} did not arrive as sent: run it again; if it stays, the flash is worn out"
        )
