"""Tables and charts of one capture."""
