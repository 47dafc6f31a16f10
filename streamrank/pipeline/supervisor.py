"""Several workers as processes of one command: started, watched, stopped together."""

import json
import logging
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence

from .replay import stop_signals

STOP_S = 20.0  # for a worker to commit and leave; then it is killed
PAUSE_S = (0.5, 30.0)  # before a worker that died is started again: doubled up to this

log = logging.getLogger(__name__)


def supervise(command: Sequence[str], n: int) -> tuple[int, dict[str, int]]:
    """Run `n` processes of `command`; returns an exit code and the sum of what each printed as JSON last.

    One that dies by a signal or by a fault of the program is started again; one that refuses to go on (its
    exit code says so) ends them all. SIGTERM and Ctrl-C are passed on.
    """
    total: Counter[str] = Counter()
    code, stopping = 0, 0.0
    pauses: dict[int, float] = {}
    due: dict[int, float] = {}
    with stop_signals() as stopped:
        running = {k: _start(command) for k in range(n)}
        while running or due:
            time.sleep(0.05)
            if (stopped() or code) and not stopping:
                stopping = time.monotonic()
                due.clear()
                for process in running.values():
                    process.send_signal(signal.SIGTERM)
            if stopping and time.monotonic() - stopping > STOP_S:
                for process in running.values():
                    process.kill()
            for k, process in list(running.items()):
                ended = process.poll()
                if ended is None:
                    continue
                del running[k]
                said, _ = process.communicate()
                if ended == 0:
                    total.update(json.loads(said.splitlines()[-1]) if said.strip() else {})
                elif ended < 0 or ended == 1:
                    if not stopping:
                        pauses[k] = min(pauses.get(k, PAUSE_S[0] / 2) * 2, PAUSE_S[1])
                        due[k] = time.monotonic() + pauses[k]
                        log.error("worker %d died (%d): started again in %.1f s", k, ended, pauses[k])
                elif not stopping:
                    code = ended
            for k in [k for k, when in due.items() if time.monotonic() >= when]:
                del due[k]
                running[k] = _start(command)
    return code, dict(total)


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    # a session of its own: Ctrl-C reaches the supervisor, which stops them
    return subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
