"""The record of a session: facts, their lines on disk, and the fold that turns them into a conversation."""
