"""Comparison of methods: protocol, execution, statistics, recommendation."""
