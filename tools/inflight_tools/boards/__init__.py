"""Boards: images for bare ones, deployment to running ones, monitoring."""
