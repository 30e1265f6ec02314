"""The top-level package of the wheel: `makeroom/` is made of this directory and of the four packages."""
