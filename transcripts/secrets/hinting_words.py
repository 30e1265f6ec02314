"""Find the words of a text that may belong to a secret.

A text would have to be searched for some two hundred hints. Most words of a session recur, so that the words
of earlier texts are known, and only new ones are searched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from .secret_forms import SecretForm

MAX_KNOWN_WORDS = 50_000
MAX_KNOWN_WORD_CHARS = 200


class HintingWords:
    """Tells words that may belong to a secret from plain ones.

    hints        texts in lower case; a word with any of them may belong to a secret
    forms        of secrets that are within one word
    has_encoded  whether a text has a word that stands for a text with a secret
    """

    def __init__(
        self, hints: Iterable[str], forms: Iterable[SecretForm], has_encoded: Callable[[str], bool]
    ) -> None:
        self._hints = tuple(dict.fromkeys(hints))
        self._forms = tuple((hint, form) for form in forms for hint in form.hints)
        self._has_encoded = has_encoded
        self._plain: set[str] = set()
        self._hinting: set[str] = set()

    def of(self, text: str) -> str:
        """Return the words of a text that may belong to a secret, each once and in a line of its own."""
        words = set(text.split()) - self._plain
        new = words - self._hinting
        return "\n".join((words & self._hinting) | self._hinting_of(new)) if new else "\n".join(words)

    def _hinting_of(self, words: set[str]) -> set[str]:
        """Return those of new words that may belong to a secret."""
        if len(self._plain) + len(self._hinting) > MAX_KNOWN_WORDS:
            self._plain.clear()
            self._hinting.clear()
        hinting = {word for test in self._tests(words) for word in words if test(word)}
        long = {word for word in words if len(word) > MAX_KNOWN_WORD_CHARS}
        self._hinting |= hinting - long
        self._plain |= words - hinting - long
        return hinting

    def _tests(self, words: set[str]) -> Iterator[Callable[[str], bool]]:
        """Yield the tests that any of the words meets."""
        joined = "\n".join(words)
        folded = joined.casefold()
        if hints := [hint for hint in self._hints if hint in folded]:
            yield lambda word: any(map(word.casefold().__contains__, hints))
        for form in dict.fromkeys([form for hint, form in self._forms if hint in joined]):
            if form.is_in(joined):
                yield form.is_in
        if self._has_encoded(joined):
            yield self._has_encoded
