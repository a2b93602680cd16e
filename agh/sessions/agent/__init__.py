"""What can be done with an agent outside any session: try it out, log in to it."""
