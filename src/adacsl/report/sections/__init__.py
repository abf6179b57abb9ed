"""Sections of the report, one module per subject."""
