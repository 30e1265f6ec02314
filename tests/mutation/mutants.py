"""Make mutants: the same module with one small fault in one place, as a tired programmer would make it.

Texts for users (messages, logs, docstrings, `__repr__`) and annotations are left alone: a fault in them is
no fault of behaviour.

Two kinds of mutants are set apart from those of behaviour, because most tests that could detect them would
repeat the code. A *table* mutant forgets or changes one word of a table outside of functions: a collection,
a `word_set` or a pattern of at least six words. A *tuning* mutant moves by one a number of at least ten that
is the value of a constant, a bound of a slice or an argument by position: a limit, a width, a share.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Literal, TypeVar

T = TypeVar("T")
Kind = Literal["behaviour", "table", "tuning"]

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
_OPPOSITE_FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}
_TOLD = ("warn", "_warn", "debug", "info", "warning", "error")  # functions whose arguments are texts
_DELETABLE = (ast.Expr, ast.AugAssign, ast.Delete, ast.Continue, ast.Break, ast.Raise, ast.If)
_MIN_TABLE_WORDS = 6
_MIN_TUNED_NUMBER = 10
_FILE_MODES = (0o600, 0o700)
_WORD = re.compile(r"\S+")
_ALTERNATIVES = re.compile(r"\|?[\w\\*]+(?:\|[\w\\*/]+){5,}")  # a table of words in a pattern


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module with one fault.

    `line` (from 1) and `code` are of the statement that contains it, `last_line` is that of its head.
    `place` is the function or class, "" outside of both; `text` is the whole module.
    """

    line: int
    last_line: int
    place: str
    code: str
    before: str
    after: str
    text: str
    kind: Kind = "behaviour"

    @property
    def change(self) -> str:
        """The part that distinguishes this mutant from the others in its statement."""
        return f"{self.before} -> {self.after}"


@dataclass(frozen=True, slots=True)
class _Site:
    """A node where a field may hold something else; `statement` is the innermost one around it."""

    parent: ast.AST
    field: str
    index: int | None
    statement: ast.stmt
    place: str

    def put(self, node: ast.AST) -> ast.AST:
        """Put another node here. Returns the one that was here."""
        if self.index is None:
            was: ast.AST = getattr(self.parent, self.field)
            setattr(self.parent, self.field, node)
            return was
        nodes = getattr(self.parent, self.field)
        was = nodes[self.index]
        nodes[self.index] = node
        return was


def mutants_of(source: str) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its lines."""
    tree = ast.parse(source)
    lines = source.split("\n")
    parts = [ast.unparse(statement) for statement in tree.body]
    for index, statement in enumerate(list(tree.body)):
        seen = {parts[index]}
        for site, node in list(_inside(_Site(tree, "body", index, statement, ""), statement)):
            for before, after, made in _faults(node):
                was = site.put(made)
                part = ast.unparse(tree.body[index])
                site.put(was)
                if part in seen:
                    continue
                seen.add(part)
                yield Mutant(
                    line=site.statement.lineno,
                    last_line=_last_line_of_head(site.statement),
                    place=site.place,
                    code=lines[site.statement.lineno - 1].strip(),
                    before=before,
                    after=after,
                    text="\n".join([*parts[:index], part, *parts[index + 1 :]]) + "\n",
                    kind=_kind(site, node, made),
                )


def _kind(site: _Site, node: ast.AST, made: ast.AST) -> Kind:
    """Return the kind of the mutant that has `made` instead of `node`."""
    match node, made, site.statement:
        case ast.Constant(value=int()), ast.Constant(value=int(value)), _ if value > _MIN_TUNED_NUMBER:
            is_tuned = _is_tuned(site) and value - 1 not in _FILE_MODES
            return "tuning" if is_tuned else "behaviour"
        case ast.Constant(value=str() | bytes()), _, ast.Assign() | ast.AnnAssign() if not site.place:
            return "table" if _words_beside(site) >= _MIN_TABLE_WORDS else "behaviour"
        case ast.Call(func=ast.Name(id="word_set"), args=[ast.Constant(value=str(words)), *_]), ast.Call(), _:
            return "table" if len(words.split()) >= _MIN_TABLE_WORDS else "behaviour"
    return "behaviour"


def _is_tuned(site: _Site) -> bool:
    match site.parent:
        case ast.Slice():
            return True
        case ast.Call():
            return site.field == "args"
        case ast.Assign() | ast.AnnAssign() | ast.BinOp():
            return not site.place and isinstance(site.statement, ast.Assign | ast.AnnAssign)
    return False


def _words_beside(site: _Site) -> int:
    """Return how many words the table contains that a word is part of."""
    match site.parent:
        case ast.Set(elts=nodes) | ast.List(elts=nodes) | ast.Tuple(elts=nodes):
            return sum(isinstance(node, ast.Constant) for node in nodes)
        case ast.Dict(keys=keys) if site.field == "keys":
            return len(keys)
        case ast.Call(args=[ast.Constant(value=str(pattern)), *_]) if _ALTERNATIVES.fullmatch(pattern):
            return pattern.count("|") + 1
        case ast.Assign(value=ast.Constant(value=str(pattern))) if _ALTERNATIVES.fullmatch(pattern):
            return pattern.count("|") + 1
    return 0


def sample(candidates: list[T], most: int, seed: str) -> list[T]:
    """Return at most so many of them in their order, the same ones for the same seed."""
    if len(candidates) <= most:
        return candidates
    indices = random.Random(seed).sample(range(len(candidates)), most)
    return [candidates[index] for index in sorted(indices)]


def _last_line_of_head(statement: ast.stmt) -> int:
    """Return the last line of a statement without the block below it."""
    match statement:
        case ast.Match():
            return statement.subject.end_lineno or statement.lineno
        case _ if body := getattr(statement, "body", None):
            first: ast.stmt = body[0]
            return max(statement.lineno, first.lineno - 1)
    return statement.end_lineno or statement.lineno


def _inside(site: _Site, node: ast.AST) -> Iterator[tuple[_Site, ast.AST]]:
    if _is_left_alone(node):
        return
    yield site, node
    if isinstance(node, ast.Raise):  # it may be deleted, its message stays
        return
    place = site.place
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        place = f"{place}.{node.name}" if place else node.name
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "type_comment"):
            continue
        children = value if isinstance(value, list) else [value]
        for index, child in enumerate(children):
            if isinstance(child, ast.AST):
                statement = child if isinstance(child, ast.stmt) else site.statement
                at = index if isinstance(value, list) else None
                yield from _inside(_Site(node, name, at, statement, place), child)


def _is_left_alone(node: ast.AST) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Assert() | ast.JoinedStr() | ast.keyword(arg="frozen"):
            return True
        case ast.FunctionDef(name="__repr__"):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Expr(value=ast.Constant()):  # docstrings, and `...` of a Protocol
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name))):
            return name in _TOLD
    return False


def _faults(node: ast.AST) -> Iterator[tuple[str, str, ast.AST]]:
    """(before, after, other node) for each fault that is made of a node."""
    match node:
        case ast.Compare():
            yield from _other_comparisons(node)
        case ast.BoolOp():
            made = deepcopy(node)
            made.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield _shown(node, made)
        case ast.UnaryOp(op=ast.Not()):
            yield _shown(node, node.operand)
        case ast.BinOp() if type(node.op) in _OPERATORS:
            made_operation = deepcopy(node)
            made_operation.op = _OPERATORS[type(node.op)]()
            yield _shown(node, made_operation)
        case ast.IfExp():
            yield _shown(node, ast.IfExp(node.test, node.orelse, node.body))
        case ast.Constant():
            yield from _other_constants(node)
        case ast.Call():
            yield from _other_calls(node)
        case ast.Name(id=name) if name in _OPPOSITE_FUNCTIONS:
            yield _shown(node, ast.Name(_OPPOSITE_FUNCTIONS[name], node.ctx))
        case ast.Return(value=value) if value is not None and not _is_constant(value):
            yield _shown(node, ast.Return(ast.Constant(None)))
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript() | ast.Tuple(elts=[ast.Attribute(), *_])]):
            yield _shown(node, ast.Pass())
        case _ if isinstance(node, _DELETABLE):
            yield _shown(node, ast.Pass())


def _shown(node: ast.AST, made: ast.AST) -> tuple[str, str, ast.AST]:
    after = "deleted" if isinstance(made, ast.Pass) else _first_line(made)
    return _first_line(node), after, made


def _first_line(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(deepcopy(node))).split("\n")[0]


def _other_comparisons(node: ast.Compare) -> Iterator[tuple[str, str, ast.AST]]:
    for index, operator in enumerate(node.ops):
        made = deepcopy(node)
        made.ops[index] = _COMPARISONS[type(operator)]()
        yield _shown(node, made)


def _other_constants(node: ast.Constant) -> Iterator[tuple[str, str, ast.AST]]:
    value = node.value
    if isinstance(value, bool):
        yield _shown(node, ast.Constant(not value))
    elif isinstance(value, int):
        yield _shown(node, ast.Constant(value + 1))
    elif isinstance(value, str) and _ALTERNATIVES.fullmatch(value):
        for word, left in _one_forgotten(value, "|"):
            yield word, "deleted", ast.Constant(left)
    elif isinstance(value, str) and _WORD.fullmatch(value):
        yield _shown(node, ast.Constant(f"{value}_other"))
    elif isinstance(value, bytes) and value:
        yield _shown(node, ast.Constant(value + b"_other"))


def _other_calls(node: ast.Call) -> Iterator[tuple[str, str, ast.AST]]:
    first_two = node.args[:2]
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    is_fixed = len(first_two) == 2 and not any(isinstance(argument, ast.Starred) for argument in first_two)
    # Others raise, or are the same.
    if is_fixed and name not in ("isinstance", "getattr", "setattr", "min", "max", "suppress"):
        yield _shown(node, ast.Call(node.func, [*reversed(first_two), *node.args[2:]], node.keywords))
    if name == "word_set":  # a table of words: one is forgotten
        for argument in first_two:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                for word, left in _one_forgotten(argument.value, " "):
                    yield word, "deleted", ast.Call(node.func, [ast.Constant(left)], node.keywords)


def _one_forgotten(table: str, separator: str) -> Iterator[tuple[str, str]]:
    """Each word of a table, with the table that is left without it."""
    words = [word for word in table.split(separator) if word]
    for index, word in enumerate(words):
        yield word, separator.join([*words[:index], *words[index + 1 :]])


def _is_constant(node: ast.AST) -> bool:
    """Return whether a return of it is already a mutant with another value, or returns None."""
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool | int))
