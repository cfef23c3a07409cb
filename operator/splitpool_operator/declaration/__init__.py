"""The InferencePool: fields, defaults, rules, how a file is read, and the CRD made from it."""
