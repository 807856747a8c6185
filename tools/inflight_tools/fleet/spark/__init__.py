"""Spark: from landing files to tables."""
