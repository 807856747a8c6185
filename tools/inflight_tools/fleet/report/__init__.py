"""The report: one HTML page, made from the facts (query/facts.py). A browser shows it without a network."""

from .page import render

__all__ = ["render"]
