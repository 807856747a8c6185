"""Collector and tables together, as child processes."""
