"""Releases of the application: keys, signing, and how they get to a fleet."""
