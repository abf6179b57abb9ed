"""A saved model behind HTTP: rows in, decisions out."""
