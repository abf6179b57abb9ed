"""``python -m paper``."""

import sys

try:
    from paper.command import main
except ImportError as error:
    sys.stderr.write(f"error: python -m paper needs {error.name!r}: run  pip install -e '.[cli]'\n")
    sys.exit(2)

sys.exit(main())
