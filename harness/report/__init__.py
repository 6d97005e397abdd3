"""Reports: the same rows as a terminal table, Markdown, CSV, JSON and one HTML file."""
