"""ARCHITECTURE.md names only existing files and functions, and its diagram matches the imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.import_boundaries_builders import MODULES, imported_modules

ROOT = Path(__file__).resolve().parent.parent
ROOTS = (ROOT, ROOT / "deltasnap_core", ROOT / "deltasnap_assets")
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
PROSE = re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)
PATH = re.compile(r"[\w.]+/[\w./]*|\w+\.py")
FUNCTION = re.compile(r"([\w.]+)\(\)")
ARROW = re.compile(r"^ *(\w+) --> (\w+)$", re.MULTILINE)
# One node in the diagram, named after the first.
BESIDE_THE_ROOMS = ("errors", "ranges", "redaction", "once", "clock", "distribution")

Edge = tuple[str, str]


def paragraphs() -> list[str]:
    """Each paragraph, item of a list or row of a table, on one line."""
    return [" ".join(text.split()) for text in re.split(r"\n(?=\n|\d+\. |- |\|)", PROSE) if text.strip()]


def spans(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def paths_in(text: str) -> list[str]:
    return [span for span in spans(text) if PATH.fullmatch(span)]


def found(path: str) -> list[Path]:
    return [root / path for root in ROOTS if (root / path).exists()]


@cache
def functions_of(file: Path) -> frozenset[str]:
    """Its functions by name, and those of its classes by `Class.name` too."""
    return frozenset(_functions(ast.parse(file.read_text(encoding="utf-8")), ""))


def _functions(node: ast.AST, owner: str) -> Iterator[str]:
    for child in (*getattr(node, "body", ()), *getattr(node, "orelse", ())):
        if isinstance(child, ast.FunctionDef):
            yield from (child.name, owner + child.name)
        yield from _functions(child, f"{child.name}." if isinstance(child, ast.ClassDef) else owner)


def test_every_path_exists() -> None:
    assert [path for path in paths_in(PROSE) if not found(path)] == []


def test_text_names_paths_and_functions() -> None:
    assert len(set(paths_in(PROSE))) > 50
    assert len(FUNCTION.findall(PROSE)) > 25


def test_every_function_is_in_a_file_named_next_to_it() -> None:
    unknown = {text: unknown_functions(text) for text in paragraphs() if FUNCTION.search(text)}
    assert {text: names for text, names in unknown.items() if names} == {}


def unknown_functions(paragraph: str) -> set[str]:
    """Return the functions in a paragraph that no file named in it has."""
    files = [file for path in paths_in(paragraph) for file in found(path) if file.suffix == ".py"]
    files = files or [path for path in MODULES.values() if path.suffix == ".py"]
    known = frozenset[str]().union(*(functions_of(file) for file in files))
    named = {match[1] for span in spans(paragraph) if (match := FUNCTION.fullmatch(span))}
    return named - known


def room_of(module: str) -> str:
    package, _, rest = module.partition(".")
    room = rest.partition(".")[0]
    return BESIDE_THE_ROOMS[0] if package == "deltasnap_core" and room in BESIDE_THE_ROOMS else room


@cache
def imports() -> frozenset[Edge]:
    """The imports between folders; imports of the core by the app are edges to `core`."""
    edges = set()
    for module in MODULES:
        for imported in imported_modules(module):
            package = imported.partition(".")[0]
            if package in ("deltasnap_core", "deltasnap_assets"):
                is_outside = package == "deltasnap_core" and module.startswith("deltasnap_assets")
                edges.add((room_of(module), "core" if is_outside else room_of(imported)))
    return frozenset((first, second) for first, second in edges if first and second and first != second)


def reachable(room: str, edges: set[Edge]) -> set[str]:
    seen: set[str] = set()
    todo = [room]
    while todo:
        following = {second for first, second in edges if first == todo[-1]} - seen
        todo.pop()
        seen |= following
        todo.extend(following)
    return seen


def test_drawn_arrows_are_imports() -> None:
    drawn = set(ARROW.findall(TEXT))
    assert len(drawn) > 15
    assert drawn - imports() == set()


def test_imports_follow_the_drawn_arrows() -> None:
    drawn = set(ARROW.findall(TEXT))
    rooms = {room for edge in drawn for room in edge}
    between = {edge for edge in imports() if rooms.issuperset(edge)}
    assert {(first, second) for first, second in between if second not in reachable(first, drawn)} == set()


def test_drawn_arrows_form_no_cycle() -> None:
    drawn = set(ARROW.findall(TEXT))
    assert [first for first, _ in drawn if first in reachable(first, drawn)] == []
