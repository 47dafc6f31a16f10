"""5 IS SERVED: what was learnt, asked for over HTTP or in process, and the clicks on it taken in."""
