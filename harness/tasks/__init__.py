"""Tasks: from a name to examples to scores; no engine and no method is known here."""
