"""agh in an editor: an ACP agent on stdio whose sessions are sessions of agh."""
