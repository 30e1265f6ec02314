"""What can be done: the tools that the model calls."""
