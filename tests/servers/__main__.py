"""`make servers`: servers to try things on, until Ctrl-C. KAFKA_PORT and REDIS_PORT choose their ports."""

import os
import signal
import sys
import threading
from contextlib import ExitStack

from tests.servers import Unavailable, kafka, redis


def main() -> int:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with ExitStack() as stack:
        for name, server in (("kafka", kafka.Broker), ("redis", redis.Server)):
            try:
                running = server(int(os.environ.get(f"{name.upper()}_PORT") or 0))
            except Unavailable as error:
                if stop.is_set():  # Ctrl-C while it started
                    return 0
                print(f"{name}: {error}", file=sys.stderr)
                return 1
            stack.callback(running.stop)
            print(f"{name}={running.address}", flush=True)
        stop.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
