"""Which Kubernetes objects does a pool become? Pure: plans in, plain dicts out."""
