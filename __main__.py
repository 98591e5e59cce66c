"""`python -m strogoff` is the `strogoff` command."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
