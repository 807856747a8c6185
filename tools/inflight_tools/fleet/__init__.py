"""Collects a fleet's messages, and proves which of them arrived."""
