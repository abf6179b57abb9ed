"""Threads, processes and other executors that run tasks."""
