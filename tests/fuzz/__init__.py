"""A seeded fuzzer: small logs made at random, damaged or only written otherwise, and every question asked of them.

`python -m tests.fuzz --seed 1 --count 1000` runs it; `--spark` asks Spark and the snapshot store too.
"""
