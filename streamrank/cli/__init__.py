"""The command line: one command, one short function; the work is elsewhere.

Exit codes: 0 done; 1 the data has faults; 2 wrong usage or settings; 3 a log cannot be read; 4 the store or a
snapshot cannot be used; 130 interrupted.
"""

import importlib
import os
import sys
from collections.abc import Sequence

from ..errors import ConfigError, SourceError, StoreError, StreamrankError
from .parser import build_parser

EXIT_CODES = {ConfigError: 2, SourceError: 3, StoreError: 4}
EXTRAS = {"httpx": "serve", "kafka": "kafka", "starlette": "serve", "uvicorn": "serve"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; errors that are the user's to mend are one line on standard error."""
    arguments = build_parser().parse_args(argv)
    module, _, function = arguments.run.partition(":")
    try:
        code = getattr(importlib.import_module(f"streamrank.cli.{module}"), function)(arguments)
        sys.stdout.flush()
    except StreamrankError as error:
        print(f"streamrank {arguments.command}: {error}", file=sys.stderr)
        return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 2)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        needs = f"needs {error.name}: pip install 'streamrank[{extra}]'"
        print(f"streamrank {arguments.command}: {needs}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `streamrank dlq list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # such as a full disk behind standard output
        print(f"streamrank {arguments.command}: {error}", file=sys.stderr)
        return 4
    return int(code or 0)
