"""What is shown of suite runs, one or many."""
