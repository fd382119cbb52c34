"""A seeded fuzzer: small random logs, damaged or only rewritten in another form, and all queries on them.

`python -m tests.fuzz --seed 1 --count 1000` runs it; `--spark` also tests Spark and the snapshot store.
"""
