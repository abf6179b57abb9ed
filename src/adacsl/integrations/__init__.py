"""One module per framework; each is the only one that imports it."""
