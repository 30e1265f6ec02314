"""What was said: facts, their lines, and the fold that turns them into a conversation."""
