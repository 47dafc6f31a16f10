"""`streamrank reconcile` and `streamrank rollback`."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from ..config import Settings
from ..errors import ConfigError
from ..pipeline import reconcile as pipeline
from ..pipeline.datasets import ArchiveData, Data, LogData, TopicData
from ..pipeline.driftlog import SHOWN, n_events, note_drift
from ..pipeline.refit import Refit, take_back
from ..pipeline.swap import Swap, new_learner, roll_back
from ..sources import open_source
from ..sources.topics import open_topic
from ..state import Store
from .consume import TOPICS, kafka_settings
from .output import check_writable, existing_store, print_json, print_table, progress, say, settings_of

ARCHIVE, KAFKA = "archive", "kafka"
LOG_SHARD = "0"


def reconcile(arguments: argparse.Namespace) -> int:
    """Measure the drift, and swap if it pays."""
    if arguments.report:
        check_writable(arguments.report, "report")
    done = [0, 0]

    def taken(offset: int, end: int) -> None:
        done[:] = offset, end
        update(f"{offset} of {end} records")

    with existing_store(arguments.store) as store:
        shards = _shards(arguments, store)
        settings = settings_of(store, shards[0], arguments.config)
        with (
            progress(lambda: (done[0], done[1]), "reconcile") as update,
            _data(arguments, settings, taken) as data,
        ):
            result = pipeline.reconcile(
                store,
                data,
                settings,
                shards=shards,
                model=arguments.model,
                method=arguments.method,
                dask=arguments.dask,
                swap=not arguments.dry_run,
                watch=lambda step, error: update(f"step {step}, validation error {error:.4f}"),
            )
        note_drift(settings, events=n_events(store), **{key: result[key] for key in SHOWN})
    if arguments.report:
        from ..pipeline.drift import write_drift  # plotly takes half a second to load

        write_drift(arguments.report, result)
    if arguments.json:
        print_json(result)
    else:
        print_table("drift, on lists that neither has seen", ["", ""], list(result["drift"].items()))
        names = list(result["candidates"]["keep"])
        rows = [(kind, *m.values()) for kind, m in result["candidates"].items()]
        print_table("\ncandidates", ["", *(name.replace("ndcg", "ndcg@10") for name in names)], rows)
        if "passes" in result:
            print(f"\n{result['passes']} passes in strata")
        else:
            steps = result["iterations"]
            print(f"\nlambda {result['lambda']:g}, {steps['warm']} steps warm, {steps['cold']} cold")
    said = f"{result['chosen']}: the weights were swapped" if result["swapped"] else "the online model stays"
    say(f"{said} ({result['seconds']:.1f} s)")
    return 0


def _shards(arguments: argparse.Namespace, store: Store) -> list[str]:
    known = store.shards()
    if arguments.shard:
        wanted = list(dict.fromkeys(arguments.shard))
    elif arguments.data == [ARCHIVE]:
        wanted = known
    elif arguments.data == [KAFKA]:
        wanted = [shard for shard in known if shard.endswith("]")]
    else:
        wanted = known if len(known) == 1 else [LOG_SHARD]
    missing = [shard for shard in wanted if shard not in known]
    if missing or not wanted:
        raise ConfigError(
            f"the store has no shard {', '.join(map(repr, missing)) or 'of a topic'}; it has: "
            f"{', '.join(known)}. Name those that --data feeds by --shard."
        )
    if len(wanted) > 1 and arguments.data not in ([ARCHIVE], [KAFKA]):
        raise ConfigError("a log feeds one shard: name one by --shard")
    return wanted


@contextmanager
def _data(
    arguments: argparse.Namespace, settings: Settings, taken: Callable[[int, int], None]
) -> Iterator[Data]:
    if arguments.data == [ARCHIVE]:
        yield ArchiveData(settings, taken)
        return
    if arguments.data != [KAFKA]:
        yield LogData(open_source(arguments.data), settings, taken)
        return
    kafka = kafka_settings(arguments).kafka
    with closing(open_topic(kafka, kafka.topic or TOPICS["clicks"])) as topic:
        yield TopicData(topic, settings, taken)


def rollback(arguments: argparse.Namespace) -> int:
    """Take the last swap back, in every shard; exit code 1 if there is none."""
    with existing_store(arguments.store) as store:
        undone = {}
        for shard in store.shards():
            settings = settings_of(store, shard, arguments.config)
            name = arguments.model or settings.models[0].name
            swap: Swap | Refit | None
            if name in [one.name for one in settings.recommenders]:
                swap = take_back(store, shard, name)
            else:
                new_learner(settings, name)  # a name that is wrong is told
                swap = roll_back(store, shard, settings, name)
            if swap is not None:
                undone[shard] = swap.id
    if arguments.json:
        print_json({"undone": undone})
    elif undone:
        print("\n".join(f"shard {shard}: {swap} was taken back" for shard, swap in undone.items()))
    if not undone:
        say("there is no swap to take back")
    return 0 if undone else 1
