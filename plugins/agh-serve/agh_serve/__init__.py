"""agh over HTTP: a server that runs in the foreground. No other command needs it."""
