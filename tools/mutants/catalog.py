"""The kept mutants: small changes of which each breaks one promise. They stand in the .toml files of this folder:

[[mutant]]
name = "dup-after-restart"
file = "lib/inflight/session/session.py"
before = "text that stands once in the file"
after = "text that replaces it"
promise = "what is broken by it, as a user would say it"
tests = ["host_tests/device/lib/test_session.py::test_name[cpython]"]  # tried first; each as pytest takes it
"""

from dataclasses import dataclass
from pathlib import Path

from inflight_tools import toml

FOLDER = Path(__file__).parent
_FIELDS = {"name", "file", "before", "after", "promise", "tests"}


class Stale(Exception):
    """A mutant does not fit the tree any more. The text says which one, and why."""


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    before: str
    after: str
    promise: str
    tests: tuple
    part: str  # the name of its .toml file

    def apply(self, root):
        """The text of its file in the tree `root`, mutated. Stale if `before` does not stand there exactly once."""
        file = root / self.file
        text = file.read_text() if file.is_file() else ""
        times = text.count(self.before)
        if times != 1 or self.before == self.after:
            raise Stale(f"{self.name}: `before` stands {times} times in {self.file}, not once; choose it anew")
        changed = text.replace(self.before, self.after)
        if file.suffix == ".py":
            compile(changed, self.file, "exec")
        return changed


def read(folder=FOLDER):
    """All kept mutants, those of one file after the other. ValueError names one with wrong fields."""
    found = []
    for source in sorted(folder.glob("*.toml")):
        for entry in toml.read(source)["mutant"]:
            if entry.keys() != _FIELDS or not entry["tests"]:
                raise ValueError(f"{source.name}: {entry.get('name')!r} has {[*entry]}; write {sorted(_FIELDS)}")
            found.append(Mutant(**entry | {"tests": tuple(entry["tests"])}, part=source.stem))
    names = [mutant.name for mutant in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"two mutants have one name: {', '.join(sorted(twice))}")
    return found
