"""State machines: any sequence of operations through the public classes, against a plain model."""
