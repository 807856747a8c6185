"""The commands `inflight device`."""
