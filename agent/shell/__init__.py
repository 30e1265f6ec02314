"""Read shell command lines: every command that a line may run, and what is known about it."""
