"""A topic in memory, for workers without a broker."""

from types import SimpleNamespace

from streamrank.errors import SourceDown
from streamrank.sources.topics import Bounds


class Broker:
    """A partition a log; `away` are calls by name and number that find nobody."""

    name, generation = "t", 1

    def __init__(self, logs, away=()):
        self.logs, self.partitions = logs, set(range(len(logs)))
        self.away, self.calls = set(away), dict.fromkeys(("poll", "bounds", "shown"), 0)
        self.paused, self.waits = set(self.partitions), []
        self.at = dict.fromkeys(self.partitions, 0)
        self.noted = [("assigned", sorted(self.partitions))]

    def call(self, what):
        self.calls[what] += 1
        if (what, self.calls[what]) in self.away:
            raise SourceDown("nobody is there")

    def changes(self):
        taken, self.noted = self.noted, []
        return taken

    def assigned(self):
        return self.partitions

    def poll(self, timeout_ms):
        self.waits.append(timeout_ms)
        self.call("poll")
        found = {}
        for partition in self.partitions - self.paused:
            start = self.at[partition]
            mine = self.logs[partition][start : start + 50]
            self.at[partition] += len(mine)
            found[partition] = [SimpleNamespace(offset=start + n, value=v) for n, v in enumerate(mine)]
        return {partition: messages for partition, messages in found.items() if messages}

    def pause(self, partition):
        self.paused.add(partition)

    def resume(self, partition, offset):
        self.at[partition] = offset
        self.paused.discard(partition)

    def position(self, partition):
        return self.at[partition]

    def identity(self):
        return "the same"

    def bounds(self, partition):
        self.call("bounds")
        return Bounds(0, len(self.logs[partition]))

    def shown(self, _):
        self.call("shown")
        return 0

    def show(self, offsets):
        pass
