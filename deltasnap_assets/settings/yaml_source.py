"""Reads a YAML file as plain values with their line numbers, so that errors can name the location.

Pure: loads neither Dagster nor PySpark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from deltasnap_core import DeltaSnapError
from deltasnap_core.support import redacted

Location = tuple[str | int, ...]

_OWN_TAGS = "tag:yaml.org,2002:"
_CONVERTED = frozenset(f"{_OWN_TAGS}{kind}" for kind in ("int", "float", "bool"))
"""The tags that convert the value of an environment variable. Without one, it is text."""
VARIABLE = re.compile(r"\$?\$\{(\w+)\}")
"""The name of an environment variable in a text. With a second `$`, the text after that stands for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigProblem:
    """One error: `key` as in `tables[0].path` (None: the file), `value` as in the file (None: not shown)."""

    reason: str
    line: int | None = None
    key: str | None = None
    value: str | None = None

    def __str__(self) -> str:
        key = "" if self.key is None else f"{self.key}: "
        value = "" if self.value is None else f" (found: {self.value})"
        return f"{key}{self.reason}{value}"


class ConfigError(DeltaSnapError):
    """The configuration is invalid. Each of `problems` is a line of the message, with the file and its line."""

    def __init__(self, *, file: str, problems: tuple[ConfigProblem, ...]) -> None:
        self.file = file
        self.problems = problems
        super().__init__("\n".join(self.lines))

    @property
    def lines(self) -> tuple[str, ...]:
        """The message, one line per problem."""
        return tuple(f"{self.file}{'' if each.line is None else f':{each.line}'}: {each}" for each in self.problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlSource:
    """The values of a YAML file, with the line (from 1) and the text of each.

    `texts` has the texts of the file before environment variables are resolved: they are safe to show. A value that is
    not in the file is not in `texts`; `line_of` then returns the line of its parent.
    """

    file: str
    values: Any
    lines: Mapping[Location, int]
    texts: Mapping[Location, str]

    def line_of(self, location: Location) -> int | None:
        while location and location not in self.lines:
            location = location[:-1]
        return self.lines.get(location)


def read_yaml(path: Path, environment: Mapping[str, str], *, only: str | None = None) -> YamlSource:
    """Read one YAML document; `${NAME}` in a value stands for an environment variable: text, unless tagged `!!int`.

    only: a key at the top; all other keys are left out. None: read all.
    Errors: `ConfigError` for a file that cannot be read, YAML that cannot be parsed, a duplicate key, a key that is not
    text, a variable that is not set, an unknown tag, and an impossible date or number.
    """
    try:
        text = path.read_text(encoding="utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(file=str(path), problems=(ConfigProblem(reason=f"cannot be read: {reason}"),)) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = f"not YAML: {error.problem} (check the indentation, quotes and brackets up to here)"
        if error.problem == "but found another document":
            reason = "a second document starts here: put all keys into one, without `---` between them"
        problem = ConfigProblem(reason=reason, line=mark.line + 1 if mark else None)
        raise ConfigError(file=str(path), problems=(problem,)) from None  # the cause has lines of the file
    except yaml.YAMLError as error:
        raise ConfigError(file=str(path), problems=(ConfigProblem(reason=f"not YAML: {error}"),)) from error
    if only is not None and isinstance(root, yaml.MappingNode):
        root.value = [(key, value) for key, value in root.value if key.value == only]
    reader = _Reader(environment)
    values = None if root is None else reader.value_of(root, ())
    if reader.problems:
        raise ConfigError(file=str(path), problems=tuple(reader.problems))
    return YamlSource(file=str(path), values=values, lines=reader.lines, texts=reader.texts)


def with_variables_escaped(text: str) -> str:
    """Return a text so that no part of it stands for an environment variable."""
    return VARIABLE.sub(lambda match: f"${match[0]}", text)


def key_text(location: Location) -> str:
    """Return a location as text: `("tables", 0, "path")` is `tables[0].path`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return text.removeprefix(".")


class _Reader:
    """Walks the node tree once and collects lines, texts and problems."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment
        self.lines: dict[Location, int] = {}
        self.texts: dict[Location, str] = {}
        self.problems: list[ConfigProblem] = []
        self._constructor = yaml.SafeLoader("")

    def value_of(self, node: yaml.Node, location: Location) -> Any:
        self.lines.setdefault(location, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return dict(self._items_of(node, location))
        if isinstance(node, yaml.SequenceNode):
            return [self.value_of(child, (*location, index)) for index, child in enumerate(node.value)]
        return self._scalar_of(node, location)

    def _items_of(self, node: yaml.MappingNode, location: Location) -> Iterator[tuple[str, Any]]:
        seen: dict[str, int] = {}
        for key_node, value_node in node.value:
            key, line = key_node.value, key_node.start_mark.line + 1
            is_merge = key_node.tag == f"{_OWN_TAGS}merge"
            if is_merge or not isinstance(key_node, yaml.ScalarNode):
                reason = "the merge key << is not supported: repeat the keys" if is_merge else "a key must be text"
                self.problems.append(ConfigProblem(reason=reason, line=line, key=key_text(location) or None))
                continue
            if key in seen:
                reason = f"duplicate key, first on line {seen[key]}"
                self.problems.append(ConfigProblem(reason=reason, line=line, key=key_text((*location, key))))
                continue
            seen[key] = line
            self.lines[(*location, key)] = line
            yield key, self.value_of(value_node, (*location, key))

    def _scalar_of(self, node: yaml.Node, location: Location) -> Any:
        self.texts[location] = node.value
        if not VARIABLE.search(node.value):
            return self._constructed(node, location)
        found = [match[1] for match in VARIABLE.finditer(node.value) if not match[0].startswith("$$")]
        unset = [name for name in found if name not in self.environment]
        for name in unset:
            reason, line = f"the environment variable {name} is not set", self.lines.get(location)
            self.problems.append(
                ConfigProblem(reason=reason, line=line, key=key_text(location), value=repr(redacted(node.value)))
            )
        text = VARIABLE.sub(self._value_of_variable, node.value)
        if node.tag not in _CONVERTED or unset:
            return text
        return self._constructed(yaml.ScalarNode(node.tag, text), location)

    def _value_of_variable(self, match: re.Match[str]) -> str:
        return match[0][1:] if match[0].startswith("$$") else self.environment.get(match[1], "")

    def _constructed(self, node: yaml.Node, location: Location) -> Any:
        try:
            return self._constructor.construct_object(node)
        except (yaml.YAMLError, ValueError, LookupError, AttributeError):  # the errors of YAML's constructors
            kind = node.tag.removeprefix(_OWN_TAGS)
            if kind == node.tag:
                reason = f"the tag {kind} is not supported: for an environment variable, write ${{NAME}}"
            else:
                reason = f"not a valid {kind}: if it is text, put it in quotes"
            # The value is not shown: it may be a credential.
            self.problems.append(
                ConfigProblem(reason=reason, line=self.lines.get(location), key=key_text(location) or None)
            )
            return None
