"""Headless Chromium with its own libraries and fonts."""

import shutil

from inflight_tools.cache import write_atomic
from tools.setup.common import atomic_folder, digest
from tools.setup.loader import find_file, loader_command

PACKAGE = "chromium-headless-shell"
NAMES = ("chromium", "chromium-browser", "google-chrome")  # programs of the system
FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
{}
<cachedir>{}</cachedir>
</fontconfig>
"""


def command(installer):
    """Returns the command line.

    Chromium looks for its files beside the program that the kernel has started, which is the loader. So a copy of the
    loader is beside Chromium's files, and Chromium starts its child processes by the wrapper. It runs without a
    sandbox, which would need root."""
    folders = installer.folders(PACKAGE, installer.host)
    home = installer.cache / "chromium" / digest(*map(str, folders))
    loader, *libraries = loader_command(folders, installer.host)
    with atomic_folder(home) as work:
        for file in (file for folder in folders for file in folder.glob("usr/lib/chromium/*")):
            (work / file.name).symlink_to(file)
        shutil.copy(loader, work / "loader")
        fonts = "\n".join(f"<dir>{path}</dir>" for folder in folders if (path := folder / "usr/share/fonts").is_dir())
        write_atomic(work / "fonts.conf", FONTS.format(fonts, home / "fonts"))
    wrapper = installer.wrapper("chromium")
    flags = ["--no-sandbox", "--no-zygote", f"--browser-subprocess-path={wrapper}"]
    start = ["env", f"FONTCONFIG_FILE={home}/fonts.conf", f"{home}/loader", *libraries]
    return [*start, str(find_file([home], PACKAGE)), *flags]
