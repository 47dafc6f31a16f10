"""Several workers as processes of one command: started, watched, stopped together."""

import json
import logging
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from typing import IO, NamedTuple

from .replay import stop_signals

STOP_S = 20.0  # for a worker to commit and leave; then it is killed
PAUSE_S = (0.5, 30.0)  # before a worker that died is started again: doubled up to this

log = logging.getLogger(__name__)


class _Running(NamedTuple):
    process: subprocess.Popen[bytes]
    said: IO[bytes]  # a file: a pipe would stay open for as long as any child of a process that was killed


def supervise(command: Sequence[str], n: int, *, again: Sequence[str] = ()) -> tuple[int, dict[str, int]]:
    """Run `n` processes of `command`; returns an exit code and the sum of what each printed as JSON last.

    One that dies by a signal or by a fault of the program is started again, with `again` added; one that
    refuses to go on (its exit code says so) ends them all. SIGTERM and Ctrl-C are passed on; after a second
    Ctrl-C they are killed.
    """
    total: Counter[str] = Counter()
    code, stopping = 0, 0.0
    pauses: dict[int, float] = {}
    due: dict[int, float] = {}
    running: dict[int, _Running] = {}
    try:
        with stop_signals() as stopped:
            running |= {k: _start(command) for k in range(n)}
            while running or due:
                time.sleep(0.05)
                if (stopped() or code) and not stopping:
                    stopping = time.monotonic()
                    due.clear()
                    for process, _ in running.values():
                        process.send_signal(signal.SIGTERM)
                if stopping and time.monotonic() - stopping > STOP_S:
                    _kill(running)
                for k, (process, said) in list(running.items()):
                    ended = process.poll()
                    if ended is None:
                        continue
                    del running[k]
                    if ended == 0:
                        total.update(_told(said))
                    elif ended < 0 or ended == 1:
                        if not stopping:
                            pauses[k] = min(pauses.get(k, PAUSE_S[0] / 2) * 2, PAUSE_S[1])
                            due[k] = time.monotonic() + pauses[k]
                            log.error("worker %d died (%d): started again in %.1f s", k, ended, pauses[k])
                    elif not stopping:
                        code = ended
                    said.close()
                for k in [k for k, when in due.items() if time.monotonic() >= when]:
                    del due[k]
                    running[k] = _start([*command, *again])
    finally:
        _kill(running)
    return code, dict(total)


def _start(command: Sequence[str]) -> _Running:
    said = tempfile.TemporaryFile()  # noqa: SIM115 - closed when its process has ended
    # a session of its own: Ctrl-C reaches the supervisor, which stops them
    return _Running(subprocess.Popen(command, stdout=said, start_new_session=True), said)


def _told(said: IO[bytes]) -> dict[str, int]:
    said.seek(0)
    lines = said.read().splitlines()
    told: dict[str, int] = json.loads(lines[-1]) if lines else {}
    return told


def _kill(running: dict[int, _Running]) -> None:
    for process, _ in running.values():
        process.kill()
