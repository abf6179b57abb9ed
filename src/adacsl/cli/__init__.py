"""The command ``adacsl``."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    from adacsl.cli.app import run  # noqa: PLC0415  nothing heavy before an option is read

    run()
