"""`make bench`: every benchmark in turn."""

import platform

from . import replay, solvers

print(f"Python {platform.python_version()} on {platform.machine()}; ratios are of one run\n")
replay.main()
print()
solvers.main()
