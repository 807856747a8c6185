"""What maintainers run, from the checkout alone: `python -m dev.soak`. Nothing of this is installed."""
