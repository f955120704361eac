"""Calls between the engine and Python: descriptions, invocation, logging, running, exits."""
