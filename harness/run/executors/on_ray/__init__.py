"""A plan on a Ray cluster (docs/scale.md). Ray places, starts and ends; the store stays here.

``cluster`` finds a cluster or starts one; ``room`` says what a worker takes; ``checks`` compares
nodes with this machine; ``worker`` is what runs on a node and ``messages`` what goes there and
back; ``backlog`` knows what is left; ``drive`` brings work and workers together.
"""
