"""The stacked ensemble."""
