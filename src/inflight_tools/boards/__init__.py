"""Boards: images for bare ones, the application onto running ones, what they say."""
