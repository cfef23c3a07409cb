"""What was measured, said to people and to machines: tables, JSON and a page with plots."""
