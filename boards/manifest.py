# What the manifests of the boards share: all that `make deploy` would copy, for options.board. MicroPython runs a
# frozen boot.py and main.py, whether the file system has any or not.

import os

include("../lib/manifest.py")
for folder in ("common", options.board, "../firmware"):
    for file in sorted(os.listdir(folder)):
        if file.endswith(".py") and file != "manifest.py":
            module(file, base_path=folder, opt=3)
