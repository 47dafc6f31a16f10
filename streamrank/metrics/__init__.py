"""How good a ranking is: of one list (`functions`), over a stream (`running`), and over time (`history`)."""
