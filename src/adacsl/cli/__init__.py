"""The command ``adacsl``."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        from adacsl.cli.app import run  # noqa: PLC0415  nothing heavy before an option is read
    except ImportError as error:
        sys.stderr.write(f"error: the command adacsl needs {error.name!r}: run  pip install 'adacsl[cli]'\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("stopped: start the command again\n")
        return 130
    return run()
