"""The parts of dev/bench/bench_pipeline.py."""
