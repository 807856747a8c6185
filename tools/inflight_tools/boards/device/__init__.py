"""Shared by deploy and monitor: the board on its cable, its console, and its messages at the broker."""
