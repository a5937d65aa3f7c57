"""Tables and charts: what is shown of a capture or of runs, described once as data, and its renderers for the terminal, the page and
pictures."""
