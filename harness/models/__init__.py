"""Models: presets, the embedded model, where weights are found."""
