"""What users of Inflight run: the command `inflight`, for boards and for fleets."""
