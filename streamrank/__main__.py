"""`python -m streamrank` is `streamrank`."""

import sys

from .cli import main

sys.exit(main())
