"""A process that has loaded everything and forks a command a line: as real to kill, and started at once."""

import json
import os
import subprocess
import sys
from types import TracebackType
from typing import Self


class Zygote:
    """Runs commands of streamrank in processes of their own, one after the other."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def run(self, *argv: str, env: dict[str, str]) -> int:
        """The exit code; negative: the signal that killed it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([argv, env]), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()


def main() -> None:
    from streamrank.cli import consume, main
    from streamrank.config import Settings
    from streamrank.events.types import Record
    from streamrank.pipeline.flow import Flow
    from tests.integration.live import events

    assert consume.TOPICS
    flow = Flow(Settings())  # once here, and the kernels are there in every child
    for offset, event in enumerate(events(0, 20)):
        flow.step(Record(offset, json.dumps(event).encode()))
    flow.learn()
    for line in sys.stdin:
        argv, env = json.loads(line)
        pid = os.fork()  # no thread runs, and no client is open
        if pid == 0:
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)
            os.environ.update(env)
            os._exit(main(argv))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
