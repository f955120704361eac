"""Declarations: handlers, filters, registries, models and their schemas."""
