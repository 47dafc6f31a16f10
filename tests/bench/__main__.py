"""`make bench`: every benchmark in turn."""

import platform

from . import egdm, replay, solvers

print(f"Python {platform.python_version()} on {platform.machine()}; ratios are of one run\n")
egdm.main()
print()
replay.main()
print()
solvers.main()
