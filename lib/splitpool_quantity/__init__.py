"""Bytes as Kubernetes writes them, such as "20Gi": read and shown."""
