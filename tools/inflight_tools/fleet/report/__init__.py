"""The report: one HTML page, made from the facts (query/facts.py). A browser shows it without a network."""

from .change import change
from .page import render, render_device, render_devices, render_roster

__all__ = ["change", "render", "render_device", "render_devices", "render_roster"]
