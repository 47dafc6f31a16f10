"""`make bench`: every benchmark in turn; `python -m tests.bench quality` runs the ones named."""

import platform
import sys

from . import (
    blocks,
    egdm,
    kafka,
    keyed,
    latent,
    lists,
    online,
    paper,
    quality,
    reconcile,
    redis,
    replay,
    serve,
    solvers,
    warmstart,
)

BENCHES = {
    "egdm": egdm,
    "replay": replay,
    "solvers": solvers,
    "blocks": blocks,
    "reconcile": reconcile,
    "warmstart": warmstart,
    "paper": paper,
    "redis": redis,
    "kafka": kafka,
    "lists": lists,
    "keyed": keyed,
    "latent": latent,
    "serve": serve,
    "quality": quality,
    "online": online,
}

names = sys.argv[1:] or list(BENCHES)
if unknown := set(names) - set(BENCHES):
    sys.exit(f"there is no benchmark {', '.join(sorted(unknown))}; choose of: {', '.join(BENCHES)}")
print(f"Python {platform.python_version()} on {platform.machine()}; ratios are of one run")
for name in names:
    print()
    BENCHES[name].main()
