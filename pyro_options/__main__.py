"""``python -m pyro_options`` is the command ``pyro-options``."""

import sys

from pyro_options.cli import main

if __name__ == "__main__":
    sys.exit(main())
