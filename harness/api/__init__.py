"""The front door: what a person may ask of this package, as functions and one result class.

The command line is a thin printer over it; ``import harness`` gives its names (docs/python.md).
"""
