import threading
from collections.abc import ItemsView

from streamrank.state.memory import MemoryStore


def test_nobody_can_acquire_between_the_check_and_the_write() -> None:
    store, epochs = MemoryStore(), []
    epoch = store.acquire("s")
    thread = threading.Thread(target=lambda: epochs.append(store.acquire("s")))

    class Interrupted(dict[str, bytes | None]):
        def items(self) -> ItemsView[str, bytes | None]:  # type: ignore[override]  # walked after the check
            thread.start()
            thread.join(0.05)  # long enough to acquire, were it not for the lock
            assert epochs == []
            return super().items()

    store.commit("s", epoch, Interrupted(w=b"1"), start=0, end=1)
    thread.join()
    assert (store.read("s"), epochs) == (({"w": b"1"}, 1), [epoch + 1])
