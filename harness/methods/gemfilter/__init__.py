"""GemFilter: the target's own early layers choose the tokens."""
