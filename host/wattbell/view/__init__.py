"""Looking at captures in a browser: a server for this machine alone, and its page."""
