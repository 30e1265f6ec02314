"""What people bring to the program in files: commands, skills, and what else a checkout may hold."""
