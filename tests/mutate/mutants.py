"""The changes that mutation tests make to the code: `chosen_mutants()` returns some or all of them.

A mutant changes one thing: a comparison, a boundary, a sign, a condition, a constant, the order of two arguments, a
returned value, a call or a filter that is dropped, an operator inside SQL. Annotations, docstrings, messages, logging
and `__repr__` are not changed.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random

from tests.forks import ROOT

PACKAGES = ("deltasnap_core", "deltasnap_assets")

# Batch sizes, which affect only speed and memory, never a result.
PACE = re.compile(
    r"(BYTES|AT_ONCE|LINES|PIECES|PROBES|READERS|THREADS|EXACTLY|BACK_VERSIONS|BATCH_ROWS|CAST_ROWS|TASK_ROWS)$"
)

_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_CALCULATED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
}
_NAMES = {
    "all": "any",
    "and_": "or_",
    "asc": "desc",
    "bisect_right": "bisect_left",
    "endswith": "startswith",
    "greater": "greater_equal",
    "greater_equal": "greater",
    "is_null": "is_valid",
    "is_valid": "is_null",
    "less": "less_equal",
    "less_equal": "less",
    "max": "min",
    "min": "max",
    "sorted": "list",
    "startswith": "endswith",
}
_NAMES |= {"any": "all", "or_": "and_", "desc": "asc"}
"""Functions and methods that are easily taken for each other."""
_DROPPED = ("distinct", "drop_duplicates", "dropDuplicates", "filter", "orderBy", "sort", "sort_by", "strip", "where")
"""Methods that return something like what they are called on."""
_CHARACTERS = ("lstrip", "rstrip", "strip")
"""Methods whose text is a set of characters: one more is never found, so another one replaces all."""
_TEMPORARY = ("mkdtemp", "TemporaryDirectory")
_UNREAD_NAMES = {"prefix": _TEMPORARY, "name": ("Thread",), "thread_name_prefix": ("ThreadPoolExecutor",)}
"""Arguments that are names for people who debug: of threads, and of temporary folders, found by their returned path."""
_UNORDERED = ("isinstance", "issubclass", "getattr", "hasattr", "setattr", "TypeVar", "cast")
_COMMUTATIVE = ("add", "and_", "equal", "or_", "greatest", "isin", "least", "max", "min", "multiply", "not_equal")
_SQL = re.compile(r" (<=?|>=?|!=|=|<=>) |\bis (not )?null\b|\bcase when\b|\bcoalesce\(|^ ?(and|or) ?$")
_IN_SQL = {
    r" < ": " <= ",
    r" <= ": " < ",
    r" > ": " >= ",
    r" >= ": " > ",
    r" = ": " != ",
    r" != ": " = ",
    r"\band\b": "or",
    r"\bor\b": "and",
    r"\bis null\b": "is not null",
    r"\bis not null\b": "is null",
    r"\bnot (?!null)": "",
    r"\bdesc\b": "asc",
    r"\basc\b": "desc",
}
_PROSE = re.compile(r"[A-Za-z]+[,:]? [a-z]+|\w\.$")
_LOOKS = ("box", "border_style", "header_style", "highlight", "justify", "padding", "style")
_NEUTRAL = ("broadcast", "description", "help", "metavar", "param_hint", "reason", "strict", "title", *_LOOKS)
"""Arguments that change no answer: texts for people, looks, or about speed."""


@dataclass(frozen=True)
class Mutant:
    """One change to a module: the lines of its statement, the line before and after, and the whole source after."""

    module: Path
    lines: range
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"{self.module}:{self.lines.start}\n  - {self.before}\n  + {self.after}"


@dataclass(frozen=True)
class Place:
    """Where a module may be changed: the place of a node in its tree, and which of the changes to that node."""

    module: Path
    node: int
    change: int


def places(module: Path) -> Iterator[Place]:
    """Yield every place of a module, given by its path below the root."""
    tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
    skipped = {id(inner) for node in ast.walk(tree) for part in _without_meaning(node) for inner in ast.walk(part)}
    for index, node in enumerate(ast.walk(tree)):
        if id(node) not in skipped:
            yield from (Place(module, index, number) for number, _ in enumerate(_changes(node)))


def mutant_at(place: Place) -> Mutant | None:
    """Return the mutant of a place; None where its source reads the same."""
    source = (ROOT / place.module).read_text(encoding="utf-8")
    changed = ast.parse(source)
    plain = ast.unparse(changed).splitlines()
    target = next(found for index, found in enumerate(ast.walk(changed)) if index == place.node)
    lines = _lines_of(target, changed)
    list(_changes(target))[place.change]()
    text = ast.unparse(ast.fix_missing_locations(changed))
    after = text.splitlines()
    at = next((i for i, (old, new) in enumerate(zip(plain, after, strict=False)) if old != new), None)
    if at is None:
        return None
    return Mutant(place.module, lines, plain[at].strip(), after[at].strip(), text)


def _lines_of(target: ast.AST, tree: ast.Module) -> range:
    """Return the lines of the innermost statement around a node; of a compound statement, those before its body."""
    around = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and target in ast.walk(node)]
    statement = min(around, key=lambda node: (node.end_lineno or 0) - node.lineno, default=None)
    if statement is None:
        return range(0)
    body = getattr(statement, "body", None)
    end = body[0].lineno if body and target is not statement else (statement.end_lineno or 0) + 1
    return range(statement.lineno, max(end, statement.lineno + 1))


def _without_meaning(node: ast.AST) -> Iterator[ast.AST]:  # noqa: C901 - one case a kind of node
    """Yield the parts of a node that tests need not cover: annotations, docstrings, messages."""
    match node:
        case ast.ClassDef(bases=[ast.Name(id="Enum")]):
            yield from node.body  # only who they are counts
        case ast.Module() | ast.ClassDef() | ast.FunctionDef():
            yield from (inner for inner in node.body if isinstance(inner, ast.Expr) and _is_text(inner.value))
            yield from getattr(node, "decorator_list", ())
            if isinstance(node, ast.FunctionDef) and node.returns is not None:
                yield node.returns
            if isinstance(node, ast.FunctionDef) and node.name == "__repr__":
                yield from node.body
        case ast.arg(annotation=annotation) | ast.AnnAssign(annotation=annotation) if annotation is not None:
            yield annotation
        case ast.Raise() | ast.Assert():
            yield from (inner for inner in ast.walk(node) if _is_text(inner) or isinstance(inner, ast.JoinedStr))
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="_log" | "logger")))):
            yield node
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            yield node
        case ast.Subscript(value=ast.Name(id="Annotated" | "Literal" | "Callable" | "Mapping" | "dict" | "tuple")):
            yield node
        case ast.Call(func=ast.Name(id="cast" | "TypeVar" | "ParamSpec" | "ContextVar")):  # a name that nothing reads
            yield node.args[0]
        case ast.Call(func=ast.Attribute(attr=name), args=[ast.Constant(value=str())]) if name in _CHARACTERS:
            yield node.args[0]
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), keywords=[_, *_]):
            yield from (each for each in node.keywords if name in _UNREAD_NAMES.get(each.arg or "", ()))
        case ast.Subscript(value=ast.Call(func=ast.Attribute(attr="hexdigest"))):  # a digit more or less is as unique
            yield node.slice
        case ast.Call(func=ast.Attribute(attr="hint")):  # how Spark joins, never what it returns
            yield from node.args
        case ast.Assign(targets=[ast.Name(id=name)]) if name in ("__all__", "__slots__") or PACE.search(name):
            yield node
        case ast.keyword(arg=name) if name in _NEUTRAL:
            yield node
        case ast.JoinedStr() if not _SQL.search(_sketch(node)):
            yield from (part for part in node.values if isinstance(part, ast.Constant))


def _sketch(text: ast.JoinedStr) -> str:
    """Return an f-string with a name in the place of each value."""
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in text.values)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _changes(node: ast.AST) -> Iterator[Callable[[], None]]:  # noqa: C901 - one case a kind of node
    """Yield what can be changed in a node."""
    match node:
        case ast.Compare():
            for place, operator in enumerate(node.ops):
                for other in _COMPARED[type(operator)]:
                    yield lambda place=place, other=other: node.ops.__setitem__(place, other())  # type: ignore[misc]
        case ast.BoolOp():
            yield lambda: setattr(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.BinOp() if type(node.op) in _CALCULATED:
            yield lambda: setattr(node, "op", _CALCULATED[type(node.op)]())
        case ast.UnaryOp(op=ast.Not()):
            yield lambda: setattr(node, "operand", ast.UnaryOp(ast.Not(), node.operand))
        case ast.If() | ast.While() | ast.IfExp() if not isinstance(node.test, ast.Compare | ast.UnaryOp):
            yield lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test))
        case ast.comprehension(ifs=[_, *_]):
            yield lambda: node.ifs.clear()
        case ast.Constant(value=bool()):
            yield lambda: setattr(node, "value", not node.value)
        case ast.Constant(value=int(number)):
            yield lambda: setattr(node, "value", number + 1)
            yield lambda: setattr(node, "value", number - 1)
        case ast.Constant(value=str(text)):
            yield from _texts(node, text)
        case ast.Call(func=ast.Attribute(attr=name), args=[ast.Constant(value=str())]) if name in _CHARACTERS:
            yield lambda: setattr(node, "args", [ast.Constant("~")])
        case ast.Return(value=value) if value is not None and not _is_none_or_false(value):
            yield lambda: setattr(node, "value", ast.Constant(None))
        case ast.Call(args=[one, other, *_]) if _swappable(node, one, other):
            yield lambda: node.args.__setitem__(slice(0, 2), [other, one])
    match node:
        case ast.Name(id=name) if name in _NAMES:
            yield lambda: setattr(node, "id", _NAMES[name])
        case ast.Attribute(attr=name) if name in _NAMES:
            yield lambda: setattr(node, "attr", _NAMES[name])
    yield from _removals(node)
    yield from _dropped(node)


def _texts(node: ast.Constant, text: str) -> Iterator[Callable[[], None]]:
    """Yield the changes to a text: to each operator of SQL, or to a text that is a name or a value."""
    if _SQL.search(text):
        for pattern, other in _IN_SQL.items():
            for found in re.finditer(pattern, text):
                changed = text[: found.start()] + other + text[found.end() :]
                yield lambda changed=changed: setattr(node, "value", changed)  # type: ignore[misc]
    elif not _PROSE.search(text):
        yield lambda: setattr(node, "value", f"{text}~" if text else "~")


def _swappable(call: ast.Call, one: ast.expr, other: ast.expr) -> bool:
    is_ordered = getattr(call.func, "id", getattr(call.func, "attr", "")) not in _UNORDERED + _COMMUTATIVE
    is_starred = isinstance(one, ast.Starred) or isinstance(other, ast.Starred)
    return is_ordered and not is_starred and ast.dump(one) != ast.dump(other)


def _dropped(node: ast.AST) -> Iterator[Callable[[], None]]:
    """Yield the changes that drop a filter or the like from a chain of calls."""
    for name, value in ast.iter_fields(node):
        for place, found in enumerate(value if isinstance(value, list) else [value]):
            match found:
                case ast.Call(func=ast.Attribute(value=receiver, attr=attr)) if attr in _DROPPED:
                    if isinstance(value, list):
                        yield partial(value.__setitem__, place, receiver)
                    else:
                        yield partial(setattr, node, name, receiver)


def _removals(node: ast.AST) -> Iterator[Callable[[], None]]:
    for name in ("body", "orelse", "finalbody"):
        statements = getattr(node, name, None)
        for place, statement in enumerate(statements if isinstance(statements, list) else ()):
            is_expression = isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.Constant)
            is_call = is_expression and not _is_logging(statement)
            if is_call or isinstance(statement, ast.Raise | ast.AugAssign | ast.Continue | ast.Break):
                yield lambda statements=statements, place=place: statements.__setitem__(place, ast.Pass())  # type: ignore[misc]


def _is_logging(statement: ast.Expr) -> bool:
    return ast.unparse(statement).startswith(("_log.", "logger."))


def _is_none_or_false(node: ast.expr) -> bool:
    """Return whether code cannot tell the value from None."""
    return isinstance(node, ast.Constant) and (node.value is None or node.value is False)


def modules_of(names: list[str]) -> list[Path]:
    """Return the modules below folders, or the modules themselves, by their path in a package."""
    found: list[Path] = []
    for name in names or PACKAGES:
        roots = [ROOT, *(ROOT / package for package in PACKAGES)]
        paths = (path for root in roots for path in (root / name, root / f"{name}.py") if path.exists())
        if (path := next(paths, None)) is None:
            sys.exit(f"There is no module or folder {name}.")
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        found += [file.relative_to(ROOT) for file in files]
    return found


def chosen_mutants(modules: Iterable[Path], sample: int | None, seed: int) -> Iterator[Mutant]:
    """Yield all mutants of modules, or so many chosen at random."""
    found = [place for module in modules for place in places(module)]
    if sample is not None:
        Random(seed).shuffle(found)
    made = (mutant for place in found if (mutant := mutant_at(place)) is not None)
    return islice(made, sample)
