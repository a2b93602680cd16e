"""`agh acp` over WebSocket and Streamable HTTP, for `agh serve`."""
