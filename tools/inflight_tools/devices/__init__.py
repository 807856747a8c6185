"""Devices at a broker: who is there and how they are, changed settings, restarts, logs, updates."""
