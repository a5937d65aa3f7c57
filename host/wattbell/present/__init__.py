"""Tables and charts of a capture or of runs, described once as data, with renderers for the terminal, the page and pictures."""
