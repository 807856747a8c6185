"""`make setup`: a virtual environment, and Debian packages that are unpacked into the cache, not installed."""
