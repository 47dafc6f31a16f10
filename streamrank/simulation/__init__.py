"""A click stream with known truth: a shop whose hidden taste is written down, to test and show the rest."""

from streamrank.simulation.stream import Settings, Simulator
from streamrank.simulation.world import World

__all__ = ["Settings", "Simulator", "World"]
