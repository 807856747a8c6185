# Freezes the library into a firmware, where its code takes flash instead of heap: FROZEN_MANIFEST=<this file>, or
# include() it from a manifest of yours.

import os

found = []
for folder in ("", "client", "flash", "journal", "level5", "net", "session"):
    inside = os.listdir(os.path.join("inflight", folder))
    found += [os.path.join(folder, name) for name in inside if name.endswith(".py") and name != "cpython.py"]
package("inflight", sorted(found), opt=3)
