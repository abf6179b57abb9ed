"""Files that are complete or absent, and documents that carry their own digest."""
