"""Tables and charts of suite runs, one or many."""
