"""Parts of ONNX graphs: what becomes of a table before nets score it."""
