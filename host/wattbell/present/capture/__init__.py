"""What is shown of one capture."""
