"""Data sets: formats, pulls, imports, and made-up sources."""
