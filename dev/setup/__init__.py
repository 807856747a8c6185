"""What `make setup` is made of: a virtual environment, and Debian packages unpacked beside it, never installed."""
