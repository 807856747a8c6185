"""Finds a Debian mirror in apt's configuration."""

import os
import subprocess
from pathlib import Path

DEBIAN_SUITES = {"bullseye", "bookworm", "trixie", "forky", "sid", "unstable", "testing", "stable", "oldstable"}


def configured(etc):
    """(URI, suite, component) of all binary sources in apt's configuration folder `etc`, in apt's order, as apt itself
    reads them."""
    command = ["apt-get", "-o", f"Dir::Etc={etc}", "indextargets", "--no-release-info"]  # also what was never fetched
    command += ["--format", "$(SITE) $(RELEASE) $(COMPONENT)", "Created-By: Packages"]
    try:
        lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    except OSError:  # a system without apt
        return []
    return [line.rsplit(" ", 2) for line in lines]  # a CD's URI has blanks; no component: a flat archive


def debian_mirror(etc=Path("/etc/apt"), environ=os.environ):
    """The base URI of a Debian archive, with dists/ and pool/ below it; None if there is none."""
    if chosen := environ.get("INFLIGHT_DEBIAN_MIRROR"):
        return chosen.rstrip("/")
    for uri, suite, component in configured(etc):
        whole_archive = suite.split("-")[0] in DEBIAN_SUITES and "security" not in suite and component == "main"
        if whole_archive and uri.split(":")[0] in ("http", "https", "file"):
            return uri.rstrip("/")
    return None
