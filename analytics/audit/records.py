"""Values of the judges as columns of Arrow and Spark, by their Python types alone.

A tuple of several types is a struct with fields `_1`, `_2` and so on, a dataclass a struct with its own fields, and
`tuple[X, ...]` a list. `X | None` is nullable. What comes back from a column is equal to what went into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import starmap
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import pyarrow as pa

_PLAIN: Final = {str: pa.string(), int: pa.int64(), bool: pa.bool_()}
_SQL: Final = {pa.string(): "string", pa.int64(): "bigint", pa.bool_(): "boolean"}


@cache
def arrow_type(hint: Any) -> pa.DataType:
    """The type of a column of such values."""
    hint = _given(hint)
    if hint in _PLAIN:
        return _PLAIN[hint]
    parts = _parts(hint)
    if parts is None:
        return pa.list_(arrow_type(get_args(hint)[0]))
    return pa.struct([(name, arrow_type(each)) for name, each in parts.items()])


def sql_type(arrow: pa.DataType) -> str:
    """The same type in the words of Spark."""
    if pa.types.is_struct(arrow):
        return f"struct<{', '.join(f'{each.name}: {sql_type(each.type)}' for each in arrow)}>"
    if pa.types.is_list(arrow):
        return f"array<{sql_type(arrow.value_type)}>"
    return _SQL[arrow]


def column(values: Sequence[Any], hint: Any) -> pa.Array:
    """A column of these values."""
    plain = _encoder(_given(hint))
    return pa.array(values if plain is None else [*map(plain, values)], arrow_type(hint))


def values(array: pa.Array, hint: Any) -> list[Any]:
    """The values of a column."""
    hint = _given(hint)
    if hint in _PLAIN:
        return list(array.to_pylist())
    parts = _parts(hint)
    found = _lists(array, hint) if parts is None else _structs(array, hint, parts)
    if not array.null_count:
        return found
    return [each if there else None for each, there in zip(found, array.is_valid().to_pylist(), strict=True)]


def names(of: type) -> tuple[str, ...]:
    """The names of the fields of a dataclass."""
    return tuple(each.name for each in fields(of))


def _structs(array: pa.StructArray, hint: Any, parts: dict[str, Any]) -> list[Any]:
    columns = [values(child, each) for child, each in zip(array.flatten(), parts.values(), strict=True)]
    rows = zip(*columns, strict=True)
    return [*starmap(hint, rows)] if isinstance(hint, type) and is_dataclass(hint) else list(rows)


def _lists(array: pa.ListArray, hint: Any) -> list[Any]:
    flat = values(array.flatten(), get_args(hint)[0])
    found, at = [], 0
    for length in array.value_lengths().to_pylist():
        found.append(tuple(flat[at : at + (length or 0)]))
        at += length or 0
    return found


def _given(hint: Any) -> Any:
    """The type of a value that is there; that of the words of a closed list is string."""
    if isinstance(hint, UnionType):
        (hint,) = (each for each in get_args(hint) if each is not NoneType)
    return str if get_origin(hint) is Literal else hint


@cache
def _parts(hint: Any) -> dict[str, Any] | None:
    """The fields of a struct with their types; None for a list."""
    if isinstance(hint, type) and is_dataclass(hint):
        types = get_type_hints(hint)
        return {each.name: types[each.name] for each in fields(hint)}
    items = get_args(hint)
    if items[-1] is Ellipsis:
        return None
    return {f"_{number}": each for number, each in enumerate(items, 1)}


@cache
def _encoder(hint: Any) -> Callable[[Any], Any] | None:
    """Makes plain tuples of dataclasses; None for values that are plain already."""
    if not isinstance(hint, type) or not is_dataclass(hint):
        return None
    parts = names(hint)
    take = attrgetter(*parts)
    inner = [_encoder(_given(each)) for each in get_type_hints(hint).values()]
    if not any(inner):
        return lambda value: None if value is None else take(value)

    def encode(value: Any) -> Any:
        return None if value is None else tuple(_each(inner, take(value)))

    return encode


def _each(encoders: Sequence[Callable[[Any], Any] | None], parts: Iterable[Any]) -> Iterable[Any]:
    return (part if encode is None else encode(part) for encode, part in zip(encoders, parts, strict=True))
