"""The parts of tools/bench/bench_pipeline.py."""
