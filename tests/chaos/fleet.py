"""The workers: processes of their own, each signalled by itself and never by its group."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

TERM_S = 30.0


class Fleet:
    """As many workers as are wanted; those that died are replaced."""

    def __init__(
        self, command: Sequence[str], environ: Mapping[str, str], folder: Path, chance: random.Random
    ) -> None:
        self.command, self.environ, self.folder = list(command), {**os.environ, **environ}, folder
        self.deaths: list[str] = []  # of those nobody had told to
        self._chance = chance
        self._live: list[subprocess.Popen[bytes]] = []
        self._stopped: list[tuple[float, subprocess.Popen[bytes]]] = []
        self._n = 0

    def keep(self, n: int) -> None:
        """Start or end workers until `n` run; wake those that slept long enough."""
        now = time.monotonic()
        for due, worker in list(self._stopped):
            if now >= due:
                self._stopped.remove((due, worker))
                worker.send_signal(signal.SIGCONT)
                self._live.append(worker)
        for worker in [w for w in self._live if w.poll() is not None]:
            self._live.remove(worker)
            self.deaths.append(f"exit code {worker.returncode}: {self._said(worker)}")
        while len(self._live) < n:
            self._n += 1
            with (self.folder / f"worker-{self._n}.log").open("wb") as log:
                self._live.append(
                    subprocess.Popen(
                        self.command,
                        env=self.environ,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )
                self._live[-1].number = self._n  # type: ignore[attr-defined]
        while len(self._live) > n:
            self._end(self._any(), signal.SIGTERM)

    def kill(self) -> None:
        """Kill -9 of any one."""
        self._end(self._any(), signal.SIGKILL)

    def term(self) -> None:
        """SIGTERM of any one, and wait for it."""
        self._end(self._any(), signal.SIGTERM)

    def stop(self, seconds: float) -> None:
        """SIGSTOP of any one; SIGCONT at the first `keep` after so long."""
        worker = self._any()
        if worker is not None:
            self._live.remove(worker)
            worker.send_signal(signal.SIGSTOP)
            self._stopped.append((time.monotonic() + seconds, worker))

    def end(self) -> None:
        """SIGTERM of all; those that slept are woken first."""
        self._stopped = [(0.0, worker) for _, worker in self._stopped]
        self.keep(0)

    def _any(self) -> subprocess.Popen[bytes] | None:
        return self._chance.choice(self._live) if self._live else None

    def _end(self, worker: subprocess.Popen[bytes] | None, number: int) -> None:
        if worker is None:
            return
        self._live.remove(worker)
        worker.send_signal(number)
        try:
            if worker.wait(TERM_S) not in (0, -number):  # told to end, or before it knew how to
                self.deaths.append(f"exit code {worker.returncode} at its end: {self._said(worker)}")
        except subprocess.TimeoutExpired:
            self.deaths.append(f"did not end within {TERM_S:.0f} s of SIGTERM: {self._said(worker)}")
            worker.send_signal(signal.SIGKILL)
            worker.wait()

    def _said(self, worker: subprocess.Popen[bytes]) -> str:
        return (self.folder / f"worker-{worker.number}.log").read_text(errors="replace").strip()[-3000:]  # type: ignore[attr-defined]
