"""What the pipeline costs: parts of tools/bench_pipeline.py."""
