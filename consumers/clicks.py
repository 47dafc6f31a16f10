"""`python -m consumers.clicks`: rankings, interactions, item and user metadata become judged lists."""

import sys

from streamrank.cli import main

if __name__ == "__main__":
    sys.exit(main(["consume", "clicks", *sys.argv[1:]]))
