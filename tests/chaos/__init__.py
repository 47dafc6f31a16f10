"""Exactly once, shown: workers, broker and Redis are killed, stopped and restarted while a stream is learnt.

`traffic` is the stream, `faults` the seeded order of what goes wrong, `fleet` the workers, `naive` a worker
that is as good as most and fails, `run` all of it together and the verdict. `python -m tests.chaos` runs it.
"""
