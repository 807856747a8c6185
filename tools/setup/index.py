"""The package index of a Debian archive, by apt with a state folder of its own: needs no root, checks signatures."""

import os
import re
import subprocess
from pathlib import Path

from tools.setup.common import SetupError, say
from tools.setup.packages import Package

SUITE = "trixie"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

# Dependencies of a package's installation, which the program does not load.
NOT_LOADED = re.compile(
    r"adduser|sysvinit-utils|init-system-helpers|debconf|ca-certificates|gcc-[0-9]+-base|dpkg"
    r"|mesa-libgallium|x11-utils|xdg-utils"  # of Chromium with a screen: 50 MB
)

FIELD = re.compile(r"^(Package|Version|Architecture|Depends|Pre-Depends|Filename|Size|SHA256): (.*)$", re.M)


def newer(version, other):
    """Whether `version` is newer in Debian's order."""
    return version != other and not subprocess.run(["dpkg", "--compare-versions", version, "gt", other]).returncode


class Index:
    """`mirror`: None for the archives in this system's apt configuration."""

    def __init__(self, home, mirror, architectures):
        self.home, self.mirror = home, mirror
        self.architectures = architectures
        self._offers = {}  # {(name, architecture): (archive's URL, fields of the newest version)}

    def _options(self):
        for name in ("state/lists/partial", "cache/archives/partial"):
            (self.home / name).mkdir(parents=True, exist_ok=True)
        (self.home / "status").touch()
        pairs = {
            "Dir::State": self.home / "state",
            "Dir::State::status": self.home / "status",
            "Dir::Cache": self.home / "cache",
            "APT::Architecture": self.architectures[0],
            "APT::Architectures": ",".join(self.architectures),
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
            "Acquire::Retries": "2",
            "APT::Update::Post-Invoke-Success": "",
        }
        if self.mirror:
            signed = f"signed-by={KEYRING}" if KEYRING.exists() else ""
            listing = self.home / "sources.list"
            listing.write_text(f"deb [{signed} arch={','.join(self.architectures)}] {self.mirror} {SUITE} main\n")
            pairs["Dir::Etc::SourceList"] = listing
            pairs["Dir::Etc::SourceParts"] = "-"
        return [word for key, value in pairs.items() for word in ("-o", f"{key}={value}")]

    def _run(self, *words):
        environ = dict(os.environ, LC_ALL="C")
        done = subprocess.run([words[0], *self._options(), *words[1:]], capture_output=True, text=True, env=environ)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.startswith("E:")] or ["no reason given"]
            raise SetupError(f"{words[0]} {words[1]}: {lines[0][2:].strip()}", temporary=True)
        return done.stdout

    def _load(self):
        if self._offers:
            return
        say(f"asking apt for the signed package index ({', '.join(self.architectures)})")
        self._run("apt-get", "update", "-qq", "--error-on=any")
        targets = self._run("apt-get", "indextargets", "--format", "$(REPO_URI) $(FILENAME)", "Created-By: Packages")
        for target in targets.splitlines():
            archive, file = target.split(" ", 1)
            for stanza in self._run("/usr/lib/apt/apt-helper", "cat-file", file).split("\n\n"):
                self._offer(archive, dict(FIELD.findall(stanza)))

    def _offer(self, archive, fields):
        if "Package" not in fields:
            return
        for architecture in self.architectures if fields["Architecture"] == "all" else [fields["Architecture"]]:
            key = fields["Package"], architecture
            if key not in self._offers or newer(fields["Version"], self._offers[key][1]["Version"]):
                self._offers[key] = archive, fields

    def _look_up(self, name, architecture):
        self._load()
        if (name, architecture) not in self._offers:
            raise SetupError(f"the archive has no {name} for {architecture}")
        return self._offers[name, architecture]

    def find(self, name, architecture):
        """The newest version of `name` in the archive, as a Package."""
        archive, fields = self._look_up(name, architecture)
        path = fields["Filename"] if self.mirror else f"{archive.rstrip('/')}/{fields['Filename']}"
        size, sha256 = int(fields["Size"]), fields["SHA256"]
        return Package(name, fields["Version"], fields["Architecture"], size, sha256, path)

    def depends(self, name, architecture):
        """The packages that `name` needs to run. Takes the first of alternatives."""
        fields = self._look_up(name, architecture)[1]
        needed = ",".join(fields[key] for key in ("Pre-Depends", "Depends") if key in fields)
        names = [re.match(r"[^\s(:|]+", item.strip()).group() for item in needed.split(",") if item.strip()]
        return [name for name in names if not NOT_LOADED.fullmatch(name)]

    def closure(self, name, architecture, without=()):
        """`name` and all that it needs to run, as Packages, without these."""
        names = [name]
        for known in names:
            names += [other for other in self.depends(known, architecture) if other not in {*names, *without}]
        return [self.find(known, architecture) for known in names]
