"""What can be left out: the layers that make room in a view."""
