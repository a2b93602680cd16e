"""`agh top`: all sessions on one screen, and the picker for a command that names no session.

`reader` reads the sessions, `state` is what the user sees of them, `draw` turns that into lines, `keys` says
what each key does, `screen` puts it on the terminal.
"""
