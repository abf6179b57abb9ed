"""``python -m paper``."""

import sys

try:
    from paper.command import main
except ImportError as error:
    sys.stderr.write(f"error: {error}\n")
    sys.exit(2)

sys.exit(main())
