"""A server with the part of OpenAI's interface that examples use, on the loopback device."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class ModelServer:
    """A running server."""

    env: dict[str, str]
    """What brings OpenAI's client here, and past every proxy."""
    prompts: list[str] = field(default_factory=list[str])
    """What it was asked, in the order of arrival."""
    refused: list[str] = field(default_factory=list[str])
    """What it does not answer, once each."""

    def reply(self, prompt: str) -> str:
        """What it says to a prompt."""
        return f"Reply to: {prompt}"


@contextmanager
def model_server() -> Generator[ModelServer]:
    """Runs a server until the block is left."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path != "/v1/chat/completions" or self.headers["Authorization"] != "Bearer none":
                self.send_error(404)
                return
            prompt = asked["messages"][-1]["content"]
            running.prompts.append(prompt)
            if prompt in running.refused:
                running.refused.remove(prompt)
                self.send_error(400)  # which the client does not try again
                return
            message = {"role": "assistant", "content": running.reply(prompt)}
            words = len(prompt.split())
            reply = {
                "id": f"chatcmpl-{len(running.prompts)}",
                "object": "chat.completion",
                "created": 0,
                "model": asked["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": words, "completion_tokens": 1, "total_tokens": words + 1},
            }
            body = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        running = ModelServer({"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none", "NO_PROXY": "127.0.0.1"})
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield running
        finally:
            server.shutdown()
            serving.join()
