"""How does a rule of scaling do over a day? A pool and its alert on a virtual clock."""
