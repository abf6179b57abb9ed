"""The command ``adacsl``."""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        from adacsl.cli.app import run  # noqa: PLC0415  nothing heavy before an option is read
        from adacsl.cli.console import INTERRUPTED, TERMINATED  # noqa: PLC0415
    except ImportError as error:
        sys.stderr.write(f"error: the command adacsl needs {error.name!r}: run  pip install 'adacsl[cli]'\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("stopped: start the command again\n")
        return 130
    code = run()
    if code in (INTERRUPTED, TERMINATED):  # everything is written: do not wait for threads of libraries
        os._exit(code)
    # only Python's own shutdown is left
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(code))
    return code
