"""The commands, one module each; what is heavy is imported when a command runs."""
