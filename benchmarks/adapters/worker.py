"""Turns an engine into a subprocess.

Requests and replies are JSON, one a line, on stdin and stdout; whatever the library prints goes to stderr. Timed
loops run inside this process, so the pipe costs nothing.
"""

import json
import os
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import cast

from adapters.base import Engine, Request, Sizes
from memory import warm
from workloads import DATASETS, WORKLOADS

_WARM_BLOBS = 20
"""What an engine and the files that it writes may take of fresh memory, in blobs."""


def _answer(engine: Engine, request: Request) -> object:
    directory = Path(request["directory"])
    sizes = Sizes(**request["sizes"])
    match request["action"]:
        case "versions":
            return engine.versions()
        case "prepare":
            DATASETS[request["name"]](engine, sizes, directory)
            return None
        case "measure":
            warm(_WARM_BLOBS * sizes.blob_bytes)
            return asdict(WORKLOADS[request["name"]].run(engine, sizes, directory))
        case action:
            raise ValueError(f"unknown action `{action}`")


def serve(engine: Engine) -> None:
    """Answers requests until stdin ends. A request that fails is answered with its traceback."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            reply: dict[str, object] = {"ok": _answer(engine, cast("Request", json.loads(line)))}
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        channel.write(json.dumps(reply) + "\n")
        channel.flush()
