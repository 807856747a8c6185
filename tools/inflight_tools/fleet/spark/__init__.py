"""Spark: from landing files to tables, and from tables to the facts of the report."""
