"""Engines: prepared prompts to tokens; no method and no task is known here.

Nothing is imported here: vLLM loads the plugin behind this package in every process it starts.
"""
