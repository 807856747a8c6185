"""Writes firmware, application and settings to boards, and listens to them."""
