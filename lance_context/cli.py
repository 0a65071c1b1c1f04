"""The command line: `lance-context`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command. Returns its exit code."""
    parser = argparse.ArgumentParser(prog="lance-context", description="Stores of rows and items on Lance.")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", add_help=False, help="kill an agent twice, and lose nothing")
    demo.set_defaults(command="demo")
    _, rest = parser.parse_known_args(arguments)
    from lance_context import demo as program

    return program.main(rest)


if __name__ == "__main__":
    sys.exit(main())
