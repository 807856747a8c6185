# Freezes the library into a firmware, where its code takes flash instead of heap: FROZEN_MANIFEST=<this file>, or
# include() it from a manifest of yours.

import os

package("inflight", sorted(f for f in os.listdir("inflight") if f.endswith(".py") and f != "cpython.py"), opt=3)
