"""The report: one HTML page, from facts alone, that needs nothing but a browser."""

from .page import render

__all__ = ["render"]
