"""Finds a Debian mirror in apt's configuration."""

import os
import re
from pathlib import Path

DEBIAN_SUITES = {"bullseye", "bookworm", "trixie", "forky", "sid", "unstable", "testing", "stable", "oldstable"}


def deb822(text):
    """The stanzas of a .sources file, as dicts with lower-case keys and joined continuation lines."""
    stanzas, fields, key = [], {}, None
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        if not line.strip():
            if fields:
                stanzas.append(fields)
            fields, key = {}, None
        elif line[0] in " \t":
            if key:
                fields[key] += " " + line.strip()
        elif ":" in line:
            key, value = line.split(":", 1)
            key = key.strip().lower()
            fields[key] = value.strip()
    return stanzas + [fields] if fields else stanzas


def from_deb822(text):
    """(URI, suite, components) of every enabled binary source of a .sources file."""
    for fields in deb822(text):
        if fields.get("enabled", "yes").lower() in ("no", "false", "0", "off", "without", "disable"):
            continue
        if "deb" not in fields.get("types", "").split():
            continue
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                yield uri, suite, fields.get("components", "").split()


def from_list(text):
    """(URI, suite, components) of every `deb` line of a sources.list."""
    for line in text.splitlines():
        line = re.sub(r"\[[^]]*\]", " ", line.split("#", 1)[0], count=1)
        words = line.split()
        if len(words) >= 3 and words[0] == "deb":
            yield words[1], words[2], words[3:]


def configured(etc):
    """All sources in apt's configuration folder `etc`, in apt's order."""
    names = [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]
    for name in names:
        reader = {".list": from_list, ".sources": from_deb822}.get(name.suffix)
        if reader and name.is_file():
            try:
                yield from reader(name.read_text(errors="replace"))
            except OSError:
                continue  # this user may not read it


def debian_mirror(etc=Path("/etc/apt"), environ=os.environ):
    """The base URI of a Debian archive, with dists/ and pool/ below it; None if there is none."""
    chosen = environ.get("INFLIGHT_DEBIAN_MIRROR")
    if chosen:
        return chosen.rstrip("/")
    for uri, suite, components in configured(etc):
        whole_archive = suite.split("-")[0] in DEBIAN_SUITES and "security" not in suite and "main" in components
        if whole_archive and uri.split(":")[0] in ("http", "https", "file"):
            return uri.rstrip("/")
    return None
