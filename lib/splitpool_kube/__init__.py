"""How is the API server of a cluster reached, and as whom? As kubectl would, without its client."""
