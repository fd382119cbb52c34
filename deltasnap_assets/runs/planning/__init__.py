"""Which versions to materialize: plan, partitions, forks."""
