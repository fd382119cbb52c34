"""Mutation run: `python -m tests.mutate [MODULE...] [--sample N] [--seed S]`, of the pure rooms where none is named.

Changes one thing in the code at a time (a comparison, a constant, a condition, a returned value, a statement) and runs
the tests that need no Spark, first those of the module and then all of tests/core. What no test notices is printed
with its line before and after. Works in copies of the tree, so that the tree itself stays as it is.
"""

from __future__ import annotations

import argparse
import ast
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from random import Random

from tests.forks import ROOT, Forks

DEFAULT = ("deltasnap_core/protocol", "deltasnap_core/log", "deltasnap_core/storage")
COPIED = ("deltasnap_core", "deltasnap_assets", "tests", "benchmarks", "pyproject.toml")
WORKERS = 2
MOST_SECONDS = 300
MOST_BYTES = 6 << 30
# What the tests import of others: loaded once, in the process that each run is forked from.
OUTSIDE = (
    "hypothesis",
    "pandas",
    "pyarrow.pandas_compat",
    "pyarrow.parquet",
    "pyspark.sql",
    "pytest",
    "s3fs",
    "fsspec",
)
RUN = """
import faulthandler, resource, sys
folder, seconds, memory, write_bytecode, *arguments = sys.argv[1:]
for name in [name for name in sys.modules if name.startswith(("deltasnap", "tests", "benchmarks"))]:
    del sys.modules[name]
sys.path[:] = [folder, *(path for path in sys.path if path not in ("", {root!r}))]
sys.dont_write_bytecode = not int(write_bytecode)
resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
faulthandler.dump_traceback_later(int(seconds), exit=True)
import pytest
sys.exit(pytest.main(["-x", "-q", "-m", "not spark", "-p", "no:cacheprovider", "--hypothesis-seed=0", *arguments]))
"""

# How much is done at a time: that is about speed and memory, and no answer depends on it.
PACE = re.compile(r"(_BYTES|_AT_ONCE|_LINES|_PIECES|_PROBES|_READERS|_THREADS|_READ_EXACTLY|_BACK_VERSIONS)$")

_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE,),
    ast.LtE: (ast.Lt,),
    ast.Gt: (ast.GtE,),
    ast.GtE: (ast.Gt,),
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


def mutants(module: Path) -> Iterator[Mutant]:
    """Yield every mutant of a module, given by its path below the root."""
    source = (ROOT / module).read_text(encoding="utf-8")
    tree = ast.parse(source)
    skipped = {id(inner) for node in ast.walk(tree) for part in _without_meaning(node) for inner in ast.walk(part)}
    plain = ast.unparse(tree).splitlines()
    for index, node in enumerate(ast.walk(tree)):
        if id(node) in skipped:
            continue
        for number in range(len(list(_changes(node)))):
            changed = ast.parse(source)
            target = next(found for place, found in enumerate(ast.walk(changed)) if place == index)
            list(_changes(target))[number]()
            text = ast.unparse(ast.fix_missing_locations(changed))
            after = text.splitlines()
            place = next((i for i, (old, new) in enumerate(zip(plain, after, strict=False)) if old != new), None)
            if place is not None:
                line = getattr(node, "lineno", 0)
                yield Mutant(module, line, plain[place].strip(), after[place].strip(), text)


def _without_meaning(node: ast.AST) -> Iterator[ast.AST]:  # noqa: C901 - one case a kind of node
    """Yield the parts of a node that say nothing which a test should hold: annotations, docstrings, messages."""
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
        case ast.Subscript(value=ast.Name(id="Literal" | "Callable" | "Mapping")):
            yield node
        case ast.Call(func=ast.Name(id="cast" | "TypeVar")):
            yield node.args[0]
        case ast.Assign(targets=[ast.Name(id=name)]) if name in ("__all__", "__slots__") or PACE.search(name):
            yield node
        case ast.keyword(arg="reason") | ast.keyword(arg="strict"):
            yield node


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
            yield lambda: setattr(node, "value", f"{text}~" if text else "~")
        case ast.Return(value=value) if value is not None and not _is_none(value):
            yield lambda: setattr(node, "value", ast.Constant(None))
    yield from _removals(node)


def _removals(node: ast.AST) -> Iterator[Callable[[], None]]:
    for name in ("body", "orelse", "finalbody"):
        statements = getattr(node, name, None)
        for place, statement in enumerate(statements if isinstance(statements, list) else ()):
            is_call = isinstance(statement, ast.Expr) and not _is_text(statement.value) and not _is_logging(statement)
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
        limits = [str(MOST_SECONDS), str(MOST_BYTES), str(int(write_bytecode))]
        script = RUN.format(root=str(ROOT))
        return self._forks.run(script, str(self.folder), *limits, *tests, cwd=self.folder).returncode == 0

    def survives(self, mutant: Mutant, tests: list[list[str]]) -> bool:
        """Whether no group of tests notices a mutant."""
        file = self.folder / mutant.module
        file.write_text(mutant.source, encoding="utf-8")
        try:
            return all(self.passes(group) for group in tests)
        finally:
            shutil.copy2(ROOT / mutant.module, file)  # of its old time, so that its bytecode counts again


def tests_of(module: Path) -> list[list[str]]:
    """Give the tests of a module, those of its name first, and then all that might notice."""
    room = Path("tests", "core", module.parent.name)
    own = sorted(str(file.relative_to(ROOT)) for file in (ROOT / room).glob(f"test_{module.stem}*.py"))
    groups = [own] if own else []
    rest = [*(f"--ignore={name}" for name in own), str(room)]
    return [*groups, rest, [f"--ignore={room}", "tests/core"]]


def modules_of(names: list[str]) -> list[Path]:
    """Give the modules below folders, or the modules themselves; `log/commit_batch` is short for one."""
    found: list[Path] = []
    for name in names or DEFAULT:
        path = next(
            p
            for p in (ROOT / name, ROOT / "deltasnap_core" / name, ROOT / "deltasnap_core" / f"{name}.py")
            if p.exists()
        )
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        found += [file.relative_to(ROOT) for file in files]
    return found


def main() -> None:
    """Make mutants, run the tests on each, print those that survive and how many were killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutate", description=__doc__)
    parser.add_argument("modules", nargs="*", help="folders or modules; the pure rooms where none is named")
    parser.add_argument("--sample", type=int, help="try so many, chosen at random, and not all")
    parser.add_argument("--seed", type=int, default=1, help="of the choice")
    parser.add_argument("--list", action="store_true", help="only print the mutants")
    arguments = parser.parse_args()
    chosen = [mutant for module in modules_of(arguments.modules) for mutant in mutants(module)]
    if arguments.sample is not None:
        chosen = Random(arguments.seed).sample(chosen, min(arguments.sample, len(chosen)))
    if arguments.list:
        print(*chosen, sep="\n")
        return
    survivors = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(WORKERS) as pool:
        idle: SimpleQueue[Worker] = SimpleQueue()
        for number in range(WORKERS):
            idle.put(Worker(Path(folder, str(number))))
        first = idle.get()
        if not first.passes(["tests/core"], write_bytecode=True):
            sys.exit("The tests fail as they are.")
        idle.put(first)

        def survives(mutant: Mutant) -> bool:
            worker = idle.get()
            try:
                return worker.survives(mutant, tests_of(mutant.module))
            finally:
                idle.put(worker)

        for mutant, has_survived in zip(chosen, pool.map(survives, chosen), strict=True):
            if has_survived:
                survivors += 1
                print(f"survived: {mutant}", flush=True)
    killed = len(chosen) - survivors
    print(f"{killed} of {len(chosen)} mutants killed: {killed / max(len(chosen), 1):.1%}")


if __name__ == "__main__":
    main()
