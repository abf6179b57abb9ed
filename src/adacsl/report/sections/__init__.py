"""Sections of a report, one module per subject: its input, its numbers, its figures, and the section itself."""
