"""`python -m consumers.examples`: scored examples and explicit preferences."""

import sys

from streamrank.cli import main

if __name__ == "__main__":
    sys.exit(main(["consume", "examples", *sys.argv[1:]]))
