"""Makes a release: `make release VERSION=x.y.z` writes all that users get into one folder, build/release-x.y.z:

- the wheel;
- mip/, an index from which MicroPython's mip installs the library: shrunk and compiled, as `inflight board` deploys it;
- images/, a file for each bare board, without a configuration; installer/, the page that installs them from a browser;
- SHA256SUMS, for `sha256sum -c`.

The same commit gives the same bytes. Nothing is written if a part cannot be made."""

import datetime
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

import inflight
from inflight_tools.boards.build import bundle
from inflight_tools.boards.images import variants
from inflight_tools.boards.images.board_image import make_bare
from inflight_tools.cache import firmware_folders, write_below
from inflight_tools.installer import folder as installer
from inflight_tools.output import failing, show
from tools.setup.common import CHECKOUT, atomic_folder

_PLACE = "lib/inflight/__init__.py"  # of the version
_SHORT = 16  # digits of the hash by which mip knows a file


def main(
    version: Annotated[str, typer.Argument(help="of the release, x.y.z", show_default=False)],
    without_images: Annotated[
        bool, typer.Option("--without-images", help="neither images nor the page that installs them")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="default: build/release-x.y.z; it is replaced")] = None,
):
    """Writes wheel, mip package, images of boards and the page that installs them into one folder."""
    with failing():
        check(version)
        target = out or CHECKOUT / "build" / f"release-{version}"
        make(version, target, not without_images)
        show(f"{target}")


def check(version):
    """ValueError with one line that says what to do, unless the checkout is what the release `version` is made of."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ValueError(f"{version!r} is no version: it is three numbers, VERSION=x.y.z")
    if inflight.__version__ != version:
        raise ValueError(f"{_PLACE} has {inflight.__version__}, not {version}: write {version} there, commit it")
    wanted = f"## [{version}] - YYYY-MM-DD"
    section = re.search(rf"^## \[{re.escape(version)}\](.*)$", (CHECKOUT / "CHANGELOG.md").read_text("utf-8"), re.M)
    if not section:
        raise ValueError(f"CHANGELOG.md has no section {version}: write {wanted} above what changed, commit it")
    try:
        datetime.date.fromisoformat(section[1].removeprefix(" - "))
    except ValueError:
        raise ValueError(f"CHANGELOG.md: the section {version} has no date: write {wanted}, commit it") from None
    changed = [line[3:] for line in _output("git", "status", "--porcelain").splitlines()]
    if changed:
        raise ValueError(f"the checkout is not clean: commit or remove {', '.join(changed)}")


def make(version, target, images):
    """Writes the release into the folder `target`. ValueError or RuntimeError with one line if it cannot be made."""
    os.environ["SOURCE_DATE_EPOCH"] = _output("git", "log", "-1", "--format=%ct").strip()
    with atomic_folder(target) as work:
        build_wheel(work)
        write_below(work / "mip", _mip(version))
        if images:
            _write_images(work)
        files = {path.relative_to(work).as_posix(): path.read_bytes() for path in work.rglob("*") if path.is_file()}
        sums = "".join(f"{_sha256(files[name])}  {name}\n" for name in sorted(files))
        write_below(work, {"SHA256SUMS": sums.encode()})


def build_wheel(folder):
    # Of what is committed: modes and times of the files are those of git.
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary)
        _output("git", "-c", "tar.umask=022", "archive", "--output", str(source / "commit.tar"), "HEAD")
        shutil.unpack_archive(source / "commit.tar", source / "commit")
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "-q", "--no-deps", "--no-index")
        _output(*pip, "--no-build-isolation", "--wheel-dir", str(folder), str(source / "commit"))


def _mip(version):
    """{path: content} of an index with one package. Every mip takes an index. A package.json with paths relative to
    itself would do for mpremote, but not for the mip of MicroPython 1.25."""
    files, hashes = {}, []
    for place, code in sorted(bundle.compile_all(bundle.library()).items()):
        short = _sha256(code)[:_SHORT]
        files[f"file/{short[:2]}/{short}"] = code
        hashes.append([f"{place}.mpy", short])
        loads = code[1]  # which MicroPython loads this .mpy: its second byte says so
    package = json.dumps({"v": 1, "version": version, "hashes": hashes, "deps": []}, indent=1).encode()
    return files | {f"package/{loads}/inflight/{name}.json": package for name in ("latest", version)}


def _write_images(folder):
    missing = []
    for board in variants.variants():
        try:
            image = make_bare(board, None, f"put it into {firmware_folders()[0]}")
        except ValueError as e:
            missing.append(board.name)
            typer.echo(f"no image for {board.name}: {e}", err=True)
        else:
            write_below(folder, {f"images/inflight-{board.name}{image.suffix}": image.file()})
    if missing:
        raise ValueError(f"no image for {', '.join(missing)}, see above: fetch what is missing, or --without-images")
    installer.write(folder / "installer", [board.name for board in variants.variants()])


def _sha256(content):
    return hashlib.sha256(content).hexdigest()


def _output(*command):
    """What the command prints. RuntimeError with one line if it fails."""
    # The modes of files that setuptools makes are in the wheel, too.
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, umask=0o022)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise RuntimeError(f"{Path(command[0]).name} {command[-1]}: {lines[-1]}")
    return done.stdout


if __name__ == "__main__":
    typer.run(main)
