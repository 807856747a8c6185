"""What maintainers run, from the checkout alone: `python -m tools.soak`. Nothing of this is installed."""
