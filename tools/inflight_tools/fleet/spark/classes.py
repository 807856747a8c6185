"""An archive of the classes that Spark loads, which Java maps into its memory: it then starts a third faster.
`python -m inflight_tools.fleet.spark.classes` makes it, by one batch of one message."""

import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from inflight_tools.fleet.spark.java import java_home

_BODY = [{"bn": "urn:dev:mac:a:", "bt": 1_760_000_000, "n": "t", "u": "Cel", "v": 20, "seq": 0, "epoch": 1}]
_LINE = {"at": 1_760_000_000_000, "by": "c", "topic": "inflight/a/telemetry", "qos": 1, "dup": False, "retain": False}
_LIMIT_S = 600


def archive(home):
    """The file for the Java in folder `home`; it may be missing."""
    return Path(sys.prefix) / "share/inflight" / f"spark-{version('pyspark')}-{home.name}.jsa"


def options(home):
    """Options of that Java, as Spark takes them. An archive that does not fit it, or this Spark, changes nothing."""
    found = archive(home)
    return f'"-XX:SharedArchiveFile={found}" -Xshare:auto -Xlog:cds*=off -Xlog:class+path=off' if found.exists() else ""


def make(home):
    """Makes the archive. Raises RuntimeError with the last line of what Spark said."""
    target = archive(home)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="inflight-classes-") as folder:
        landing = Path(folder) / "landing"
        landing.mkdir()
        (landing / "1.ndjson").write_text(json.dumps(_LINE | {"text": json.dumps(_BODY)}) + "\n")
        new = Path(folder) / "new.jsa"
        done = subprocess.run(
            [sys.executable, "-m", "inflight_tools", "fleet", "tables", "--once", "--data", folder],
            env=os.environ | {"JDK_JAVA_OPTIONS": f'-XX:ArchiveClassesAtExit="{new}" -Xlog:cds*=off'},
            stdin=subprocess.DEVNULL,
            capture_output=True,  # until Java has ended, too
            text=True,
            timeout=_LIMIT_S,
        )
        if done.returncode or not new.exists():
            raise RuntimeError((done.stdout + done.stderr).strip().rpartition("\n")[2] or "Java wrote no archive")
        part = target.with_suffix(".part")
        part.write_bytes(new.read_bytes())
        part.replace(target)


if __name__ == "__main__":
    home = java_home()
    if home and not archive(home).exists():
        make(home)
