"""The chat: a session on a terminal, as `agh session attach` shows it.

`start` is the way in. `lines` is for terminals that can only print; everything else is for those that can
move their cursor, and imports prompt_toolkit, which no other command may.
"""
