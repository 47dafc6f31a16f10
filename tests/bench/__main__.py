"""`make bench`: every benchmark in turn."""

import platform

from . import replay

print(f"Python {platform.python_version()} on {platform.machine()}; ratios are of one run\n")
replay.main()
