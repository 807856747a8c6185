"""Headless Chromium, with its own libraries and fonts: for a machine that has neither."""

import shutil

from inflight_tools.cache import write_atomic

from .common import appearing, digest
from .loader import loading, one

PACKAGE = "chromium-headless-shell"
NAMES = ("chromium", "chromium-browser", "google-chrome")  # of a system's own
FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
{}
<cachedir>{}</cachedir>
</fontconfig>
"""


def command(workshop):
    """Chromium takes the program that the kernel started, its loader, for itself. So a copy of the loader lies beside
    Chromium's files, and its other processes are started by the wrapper; without a sandbox, which would need root."""
    folders = workshop.folders(PACKAGE, workshop.host)
    home = workshop.cache / "chromium" / digest(*map(str, folders))
    loader, *libraries = loading(folders, workshop.host)
    with appearing(home) as work:
        for file in (file for folder in folders for file in folder.glob("usr/lib/chromium/*")):
            (work / file.name).symlink_to(file)
        shutil.copy(loader, work / "loader")
        fonts = "\n".join(f"<dir>{path}</dir>" for folder in folders if (path := folder / "usr/share/fonts").is_dir())
        write_atomic(work / "fonts.conf", FONTS.format(fonts, home / "fonts"))
    wrapper = workshop.wrapper("chromium")
    flags = ["--no-sandbox", "--no-zygote", f"--browser-subprocess-path={wrapper}"]
    start = ["env", f"FONTCONFIG_FILE={home}/fonts.conf", f"{home}/loader", *libraries]
    return [*start, str(one([home], PACKAGE)), *flags]
