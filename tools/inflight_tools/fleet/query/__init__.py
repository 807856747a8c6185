"""Queries over the tables with DuckDB, without Spark."""
