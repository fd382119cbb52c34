"""Which versions are stored, which are current, and which can be removed. No PySpark."""
