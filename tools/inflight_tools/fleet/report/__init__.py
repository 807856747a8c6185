"""The report: one HTML page, made from the facts (query/facts.py). A browser shows it without a network."""

from .page import render, render_device

__all__ = ["render", "render_device"]
