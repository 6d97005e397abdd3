"""The method itself: importance, selection, windows, and its engines."""
