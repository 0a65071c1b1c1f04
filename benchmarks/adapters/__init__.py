"""One module an engine. Each runs as `python -m adapters.NAME` in its own process (see `adapters.base`)."""
