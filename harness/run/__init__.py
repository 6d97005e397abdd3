"""Plan → execute → store: what a run is, how it is measured, and what it leaves behind."""
