"""Mutation tests: `python -m tests.mutate [MODULE...] [--sample N] [--seed S] [--near] [--workers N] [--list]`.

Changes one thing in the code at a time: a comparison, a boundary, a sign, a condition, a constant, the order of two
arguments, a returned value, a call or a filter that is dropped, an operator inside SQL. Runs the quick tests (neither
`spark` nor `thorough`) on each change, the likely ones first, and prints the changes that no test detects (survivors),
with the line before and after. Annotations, docstrings, messages, logging and `__repr__` are not changed.

    python -m tests.mutate --sample 40 --seed 7 --near       40 random mutants of both packages
    python -m tests.mutate scan/skipping settings/discovery  every mutant of a folder and a module
    python -m tests.mutate store --list                      the mutants of a folder, without running a test

MODULE is a folder or a module, from the root or within a package; by default both packages. Tests run in three groups:
those of the module and of the modules that import it, those of its folder, then all quick tests. `--near` stops after
the second group, if there are such tests, and does not check that the tests pass without a change. Works in copies.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from random import Random

from tests.conftest import golden_folder
from tests.forks import ROOT, Forks

TESTS = {"deltasnap_core": "tests/core", "deltasnap_assets": "tests/assets"}
"""The packages, and where their tests are."""
_FILES = ("pyproject.toml", "README.md", "constraints.txt", "constraints-sail.txt")
COPIED = (*TESTS, "tests", "benchmarks", "docs", *_FILES)
MAX_CPU_SECONDS = 300
MAX_SECONDS = 900
MAX_BYTES = 6 << 30
# Third-party imports of the tests: loaded once, in the process from which each run is forked.
OUTSIDE = (
    "dagster",
    "deltalake",
    "hypothesis",
    "pandas",
    "pyarrow.pandas_compat",
    "pyarrow.parquet",
    "pyspark.sql",
    "pytest",
    "rich.console",
    "s3fs",
    "sqlglot",
    "typer",
    "fsspec",
)
RUN = """
import faulthandler, resource, sys
folder, cpu_seconds, seconds, memory, write_bytecode, *arguments = sys.argv[1:]
for name in [name for name in sys.modules if name.startswith(("deltasnap", "tests", "benchmarks"))]:
    del sys.modules[name]
sys.path[:] = [folder, *(path for path in sys.path if path not in ("", {root!r}))]
sys.dont_write_bytecode = not int(write_bytecode)
resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds), int(cpu_seconds)))
faulthandler.dump_traceback_later(int(seconds), exit=True)
import pytest
options = ["-x", "-q", "-m", "not spark and not thorough", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
sys.exit(pytest.main([*options, *arguments]))
"""

# Batch sizes, which affect only speed and memory, never a result.
PACE = re.compile(r"(BYTES|AT_ONCE|LINES|PIECES|PROBES|READERS|THREADS|EXACTLY|BACK_VERSIONS|CAST_ROWS|TASK_ROWS)$")

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
_UNORDERED = ("isinstance", "issubclass", "getattr", "hasattr", "setattr", "TypeVar", "cast")
_COMMUTATIVE = ("and_", "or_", "max", "min")
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
_NEUTRAL = ("broadcast", "description", "help", "metavar", "param_hint", "reason", "strict", "title")
"""Arguments that change no answer: texts for people, or about speed."""


@dataclass(frozen=True)
class Mutant:
    """One change to a module: its place, the line before and after, and the whole source after."""

    module: Path
    line: int
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line}\n  - {self.before}\n  + {self.after}"


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
    list(_changes(target))[place.change]()
    text = ast.unparse(ast.fix_missing_locations(changed))
    after = text.splitlines()
    at = next((i for i, (old, new) in enumerate(zip(plain, after, strict=False)) if old != new), None)
    if at is None:
        return None
    return Mutant(place.module, getattr(target, "lineno", 0), plain[at].strip(), after[at].strip(), text)


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
        case ast.Call(func=ast.Name(id="cast" | "TypeVar")):
            yield node.args[0]
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
        case ast.Return(value=value) if value is not None and not _is_none(value):
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


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


class Worker:
    """A copy of the tree, and the tests run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, folder / name)
        self._forks = Forks(*OUTSIDE)

    def passes(self, tests: list[str], *, write_bytecode: bool = False) -> bool:
        """Whether all of some tests pass in time and within their memory."""
        limits = [str(MAX_CPU_SECONDS), str(MAX_SECONDS), str(MAX_BYTES), str(int(write_bytecode))]
        script = RUN.format(root=str(ROOT))
        code = self._forks.run(script, str(self.folder), *limits, *tests, cwd=self.folder).returncode
        return code in (0, 5)  # 5: none of them is quick

    def survives(self, mutant: Mutant, tests: Iterable[list[str]]) -> bool:
        """Return whether no group of tests detects a mutant."""
        file = self.folder / mutant.module
        file.write_text(mutant.source, encoding="utf-8")
        try:
            return all(self.passes(group) for group in tests)
        finally:
            shutil.copy2(ROOT / mutant.module, file)  # with its old time, so that its bytecode is valid again


def tests_of(module: Path) -> list[list[str]]:
    """Return the tests of a module: those named after it or importing it, those of its folder, all others.

    The first group has those of the modules that import it too: a folder such as `rules` is tested through others.
    """
    side = Path(TESTS[module.parts[0]])
    files = _texts_below(*TESTS.values())
    users = [path for path, text in _texts_below(*TESTS).items() if _imported(module).search(text)]
    named = {f"test_{path.stem}" for path in (module, *users) if path.stem != "__init__"}
    own = [
        str(path)
        for path, text in files.items()
        if path.name.startswith("test_")
        if (path.stem in named and path.is_relative_to(side)) or _imported(module).search(text)
    ]
    groups = [own] if own else []
    seen = [f"--ignore={name}" for name in own]
    room = str(side / module.parts[1])
    if (ROOT / room).is_dir():
        groups.append([*seen, room])
        seen.append(f"--ignore={room}")
    return [*groups, [*seen, *TESTS.values()]]


def _imported(module: Path) -> re.Pattern[str]:
    name = re.escape(".".join(module.with_suffix("").parts))
    return re.compile(rf"^ *(from|import) {name}\b", re.MULTILINE)


@cache
def _texts_below(*folders: str) -> dict[Path, str]:
    found = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in found}


def modules_of(names: list[str]) -> list[Path]:
    """Return the modules below folders, or the modules themselves, by their path in a package."""
    found: list[Path] = []
    for name in names or TESTS:
        roots = [ROOT, *(ROOT / package for package in TESTS)]
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


def main() -> None:
    """Make mutants, run the tests on each, print the survivors and how many were killed."""
    summary, _, details = str(__doc__).partition("\n\n")
    parser = argparse.ArgumentParser(prog="python -m tests.mutate", usage=summary.split("`")[1], description=details)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("modules", nargs="*", help="folders or modules; by default both packages")
    parser.add_argument("--sample", type=int, help="how many to choose at random; by default all")
    parser.add_argument("--seed", type=int, default=1, help="of the choice")
    parser.add_argument("--near", action="store_true", help="run only the tests of the module and of its folder")
    parser.add_argument("--workers", type=int, default=2, help="how many mutants to test at once")
    parser.add_argument("--list", action="store_true", help="only print the mutants")
    arguments = parser.parse_args()
    chosen = list(chosen_mutants(modules_of(arguments.modules), arguments.sample, arguments.seed))
    if arguments.list:
        print(*chosen, sep="\n")
        return
    if (golden := golden_folder()) is not None:
        os.environ["DELTASNAP_GOLDEN"] = str(golden)  # beside the checkout, but not beside its copies
    survivors = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(arguments.workers) as pool:
        idle: SimpleQueue[Worker] = SimpleQueue()
        for number in range(arguments.workers):
            idle.put(Worker(Path(folder, str(number))))
        if not arguments.near:
            first = idle.get()
            if not first.passes([*TESTS.values()], write_bytecode=True):
                sys.exit("The tests fail without a change.")
            idle.put(first)

        def survives(mutant: Mutant) -> bool:
            worker = idle.get()
            try:
                groups = tests_of(mutant.module)
                return worker.survives(mutant, (groups[:-1] if arguments.near else ()) or groups)
            finally:
                idle.put(worker)

        for mutant, has_survived in zip(chosen, pool.map(survives, chosen), strict=True):
            survivors += has_survived
            if has_survived:
                print(f"survived: {mutant}", flush=True)
    killed = len(chosen) - survivors
    print(f"{killed} of {len(chosen)} mutants killed: {killed / max(len(chosen), 1):.1%}")


if __name__ == "__main__":
    main()
