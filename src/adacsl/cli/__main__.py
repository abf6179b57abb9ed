"""``python -m adacsl.cli``: the command ``adacsl`` where its script is not on the path."""

import sys

from adacsl.cli import main

sys.exit(main())
