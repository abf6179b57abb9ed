"""Data sets: tables and images with their labels, groups and prices."""
