"""`make chaos`: the long run, under both durabilities of Redis, then the control, which must fail."""

import argparse
import sys

from tests.servers.kafka import Broker

from .run import OPTIONS, Chaos, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--client", choices=OPTIONS, default="kafka-python")
    parser.add_argument("runs", nargs="*", default=["everysec", "always", "naive"], metavar="RUN")
    arguments = parser.parse_args()
    broker, passed = Broker(), True
    try:
        for name in arguments.runs:
            chaos = Chaos(
                events=arguments.events,
                faults=arguments.faults,
                seed=arguments.seed,
                client=arguments.client,
                fsync="everysec" if name == "naive" else name,
                naive=name == "naive",
            )
            print(f"{name}: {chaos}", flush=True)
            outcome = run(chaos, broker, say=lambda text: print(f"  {text}", flush=True))
            right = bool(outcome.wrong) == chaos.naive
            passed = passed and right
            kinds = ", ".join(f"{n} {kind}" for kind, n in outcome.faults.items())
            print(
                f"{name}: {sum(outcome.records)} records over {len(outcome.records)} partitions, "
                f"{outcome.faults.total()} faults ({kinds}), "
                f"{outcome.seconds:.0f} s; {len(outcome.wrong)} of {len(outcome.undisturbed)} shards differ "
                f"from a replay without faults: {'as it must be' if right else 'WRONG'}"
            )
            for shard in sorted({*outcome.live, *outcome.undisturbed}):
                print(f"  {shard}: live {outcome.live.get(shard)}, replay {outcome.undisturbed.get(shard)}")
            for death in outcome.deaths:
                print(f"  a worker died by itself: {death}")
    finally:
        broker.stop()
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
