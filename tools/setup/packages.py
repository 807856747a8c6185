"""The pinned Debian packages: reads the lock, downloads, checks and unpacks the packages into the cache."""

import hashlib
import os
import re
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tools.setup.common import SetupError, atomic_folder, say

HELPER = "/usr/lib/apt/apt-helper"
KEEP = ("usr/bin/", "usr/sbin/", "usr/lib", "lib", "usr/share/python-wheels/", "usr/share/fonts/truetype/")
# The other emulators are hundreds of megabytes.
WANTED_QEMU = ("usr/bin/qemu-arm", "usr/bin/qemu-i386")


class NotOnMirror(SetupError):
    """The mirror does not have this file any more."""


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    architecture: str
    size: int
    sha256: str
    path: str  # below the mirror, or a whole URI

    @property
    def folder(self):
        """The folder's name in the cache. It contains version and hash, so versions cannot mix."""
        version = self.version.replace(":", "%3a")
        return f"{self.name}_{version}_{self.architecture}-{self.sha256[:8]}"

    def uri(self, mirror):
        return self.path if ":" in self.path.split("/")[0] else f"{mirror}/{self.path}"


def read_lock(text):
    """The lock as {(program, architecture): [Package, ...]}; the program itself comes first."""
    found = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            program, name, version, architecture, size, sha256, path = line.split()
            package = Package(name, version, architecture, int(size), sha256, path)
            found.setdefault((program, architecture), []).append(package)
    return found


def check(path, package):
    """Raises SetupError if the file is not the pinned one."""
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != package.sha256:
        raise SetupError(
            f"{package.name}: the download is not the pinned file (SHA-256 {found}, pinned {package.sha256})"
        )


def download(package, mirror, target):
    """Downloads with apt, which knows the system's proxy and certificates."""
    uri = package.uri(mirror)
    if uri.startswith("file:"):  # apt would only make a link
        source = Path(uri[5:].replace("//", "/", 1))
        if not source.exists():
            raise NotOnMirror(f"{source} does not exist")
        shutil.copyfile(source, target)
        return
    if not os.access(HELPER, os.X_OK):
        raise SetupError(f"{HELPER} is missing: this needs Debian, Ubuntu or a system with apt")
    command = [HELPER, "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=2", "-o", "Acquire::http::Timeout=30"]
    command += ["download-file", uri, str(target)]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, LC_ALL="C"))
    if done.returncode:
        reason = re.sub(r"^E: (Failed to fetch \S+ +)?", "", done.stderr.strip()).splitlines()[0]
        if " 404 " in reason:
            raise NotOnMirror(reason)
        raise SetupError(f"cannot download {package.name}: {reason}", temporary=True)


def wanted(name):
    name = name.removeprefix("./")
    if name.startswith("usr/bin/qemu-"):
        return name in WANTED_QEMU
    return name.startswith(KEEP) and "/gconv/" not in name


def unpack(deb, folder):
    """Unpacks the programs and libraries of the .deb file below `folder`. No script of the package runs."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as reader:
        with tarfile.open(fileobj=reader.stdout, mode="r|") as archive:
            for member in archive:
                if wanted(member.name) and (member.isfile() or member.issym() or member.islnk()):
                    _extract(archive, member, folder)
        reader.stdout.read()  # the padding: dpkg-deb fails if the pipe is closed before
    if reader.returncode:
        raise SetupError(f"{deb.name} cannot be unpacked (damaged, or no space left)", temporary=True)


def _extract(archive, member, folder):
    target = folder / member.name
    if ".." in target.parts:
        raise SetupError(f"{member.name}: a path that leaves its package")
    target.parent.mkdir(parents=True, exist_ok=True)
    if member.issym():
        target.symlink_to(member.linkname)
    elif member.islnk():
        os.link(folder / member.linkname, target)
    else:
        with archive.extractfile(member) as source, open(target, "wb") as file:
            shutil.copyfileobj(source, file)
        target.chmod(member.mode & 0o755)


def install(package, mirror, store):
    """Unpacks the package into `store`, unless it is there. Returns its folder."""
    target = store / package.folder
    if target.is_dir():
        return target
    say(f"fetching {package.name} {package.version} {package.architecture} ({max(1, package.size // 1024)} KiB)")
    with atomic_folder(target) as work:
        deb = work / "package.deb"
        download(package, mirror, deb)
        check(deb, package)
        unpack(deb, work)
        deb.unlink()
    return target
