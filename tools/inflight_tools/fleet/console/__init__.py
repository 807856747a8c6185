"""The console: the fleet as the tables have it now, for browsers, and its metrics for Prometheus. It only reads."""
