"""The command `inflight`, for boards and fleets."""
