"""Readers of tables: text, Arrow and Parquet, JSON lines, spreadsheets, SQL."""
