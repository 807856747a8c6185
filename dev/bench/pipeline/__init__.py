"""What the pipeline costs: parts of dev/bench/bench_pipeline.py."""
