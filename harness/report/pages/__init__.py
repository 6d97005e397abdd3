"""The report's pages: what each says, as values; the templates only lay them out."""
