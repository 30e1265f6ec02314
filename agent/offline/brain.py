"""The rule-based brain that `makeroom --offline` talks to."""

from agent.offline.reply import Body, Reply, says


class Brain:
    """Answers from the body of the request alone."""

    def __call__(self, body: Body) -> Reply:
        return Reply([says("I am the offline demo of makeroom.")])
