"""Regular expressions in linear time: the matcher follows all states of an automaton at once and never backtracks.

A search takes at most the length of the text times the size of the pattern, so no pattern can block the node as
`(a+)+$` blocks a backtracking matcher. Features that need backtracking are refused: references to groups, lookahead and
lookbehind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NoReturn

MAX_TEXT_LENGTH = 4096
"""Most characters of a text that a search reads, from the start."""
MAX_STATES = 400
"""Most states of a pattern, with repetitions expanded."""
_MAX_DFA_STATES = 2000
"""Most DFA states in the cache of a pattern; then the cache starts empty again."""
_MAX_TRANSITIONS = 20_000
"""Most transitions in the cache of a pattern."""

CharTest = Callable[[str], bool]
"""Whether a state accepts a character."""

_CLASSES: dict[str, CharTest] = {
    "d": str.isdecimal,
    "w": lambda char: char.isalnum() or char == "_",
    "s": str.isspace,
}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a", "0": "\0"}
_TAKES, _SPLIT, _BEGIN, _END, _MATCH = range(5)


class PatternError(ValueError):
    """The regular expression is malformed or not supported. The text says what and where."""


class _State:
    __slots__ = ("accepts", "kind", "successors")

    def __init__(self, kind: int, accepts: CharTest | None = None) -> None:
        self.kind = kind
        self.accepts = accepts
        self.successors: list[_State] = []


class _Fragment:
    """A fragment of the NFA (Thompson's construction): its first state, and the states without successor yet."""

    __slots__ = ("begin", "ends")

    def __init__(self, begin: _State, ends: list[_State]) -> None:
        self.begin = begin
        self.ends = ends

    def then(self, successor: _State) -> None:
        for each in self.ends:
            each.successors.append(successor)


class _DfaState:
    """A set of NFA states as one state of the DFA, with its transitions as far as they were needed."""

    __slots__ = ("at_end", "found", "states", "transitions")

    def __init__(self, states: frozenset[_State]) -> None:
        self.states = states
        self.transitions: dict[str, _DfaState] = {}
        self.found = any(state.kind == _MATCH for state in states)
        behind = _closure([each for state in states if state.kind == _END for each in state.successors], True)
        self.at_end = self.found or any(state.kind == _MATCH for state in behind)


def _closure(states: Iterable[_State], at_end: bool = False, at_begin: bool = False) -> set[_State]:
    """The states that these reach without reading a character."""
    reached: set[_State] = set()
    todo = list(states)
    while todo:
        state = todo.pop()
        if state in reached:
            continue
        reached.add(state)
        passes = state.kind == _SPLIT or (state.kind == _BEGIN and at_begin) or (state.kind == _END and at_end)
        if passes:
            todo.extend(state.successors)
    return reached


class Pattern:
    """A compiled pattern. Raises `PatternError`."""

    def __init__(self, text: str) -> None:
        fragment, self._ignore_case = _Parser(text).parse()
        fragment.then(_State(_MATCH))
        self._begin = fragment.begin
        self._dfa_states: dict[frozenset[_State], _DfaState] = {}
        self._transitions = 0

    def search(self, text: str) -> bool:
        """Whether the pattern matches anywhere in the first `MAX_TEXT_LENGTH` characters of the text."""
        text = text[:MAX_TEXT_LENGTH]
        if self._ignore_case:
            text = text.lower()
        here = self._dfa_state(_closure([self._begin], at_begin=True))
        last = len(text) - 1
        for at, char in enumerate(text):
            if at == last and char == "\n":  # `$` also matches before a final line end
                here = self._dfa_state(_closure(here.states, True, at == 0))
            if here.found:
                return True
            here = here.transitions.get(char) or self._step(here, char)
        if not text:
            return here.found or self._empty()
        return here.at_end

    def _empty(self) -> bool:
        """Whether the empty text matches. Its begin is its end."""
        return any(state.kind == _MATCH for state in _closure([self._begin], True, True))

    def _step(self, here: _DfaState, char: str) -> _DfaState:
        taken = [
            state.successors[0]
            for state in here.states
            if state.kind == _TAKES and state.accepts and state.accepts(char)
        ]
        target = self._dfa_state(_closure([*taken, self._begin]))
        self._transitions += 1
        if self._transitions > _MAX_TRANSITIONS:
            for each in self._dfa_states.values():
                each.transitions.clear()
            self._transitions = 0
        here.transitions[char] = target
        return target

    def _dfa_state(self, states: set[_State]) -> _DfaState:
        key = frozenset(states)
        found = self._dfa_states.get(key)
        if found is None:
            if len(self._dfa_states) >= _MAX_DFA_STATES:
                for each in self._dfa_states.values():
                    each.transitions.clear()
                self._dfa_states.clear()
            found = self._dfa_states[key] = _DfaState(key)
        return found


class _Parser:
    """A recursive descent parser for patterns."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._size = 0
        self._depth = 0
        self._ignore_case = False

    def parse(self) -> tuple[_Fragment, bool]:
        if self._text.startswith("(?i)"):
            self._ignore_case = True
            self._at = 4
        fragment = self._either()
        if self._at < len(self._text):
            self._wrong("a ) without its (")
        return fragment, self._ignore_case

    # -- reading

    def _peek(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _skip(self, text: str) -> bool:
        if not self._peek(text):
            return False
        self._at += len(text)
        return True

    def _next(self, missing: str) -> str:
        if self._at == len(self._text):
            self._wrong(missing)
        self._at += 1
        return self._text[self._at - 1]

    def _wrong(self, what: str) -> NoReturn:
        raise PatternError(f"{what}, at position {self._at}")

    def _state(self, kind: int, accepts: CharTest | None = None) -> _State:
        self._size += 1
        if self._size > MAX_STATES:
            raise PatternError(f"larger than {MAX_STATES} characters with repetitions expanded")
        return _State(kind, accepts)

    # -- the grammar

    def _either(self) -> _Fragment:
        fragments = [self._sequence()]
        while self._skip("|"):
            fragments.append(self._sequence())
        if len(fragments) == 1:
            return fragments[0]
        split = self._state(_SPLIT)
        split.successors = [fragment.begin for fragment in fragments]
        return _Fragment(split, [end for fragment in fragments for end in fragment.ends])

    def _sequence(self) -> _Fragment:
        first = self._state(_SPLIT)
        whole = _Fragment(first, [first])
        while self._at < len(self._text) and not self._peek("|") and not self._peek(")"):
            fragment = self._repeated()
            whole.then(fragment.begin)
            whole.ends = fragment.ends
        return whole

    def _repeated(self) -> _Fragment:
        start = self._at
        fragment = self._atom()
        stop = self._at
        bounds = self._bounds()
        if bounds is None:
            return fragment
        if self._skip("+"):
            self._wrong("a possessive repetition is not supported")
        self._skip("?")  # a lazy repetition: it matches the same texts
        end = self._at
        if self._peek("*") or self._peek("+") or self._bounds() is not None:
            self._wrong("a repetition of a repetition")
        least, most = bounds
        whole = self._repetition(fragment, start, stop, least, most)
        self._at = end
        return whole

    def _repetition(self, fragment: _Fragment, start: int, stop: int, least: int, most: int | None) -> _Fragment:
        """The fragment, repeated. It is parsed again for each repetition."""
        first = self._state(_SPLIT)
        whole = _Fragment(first, [first])
        skips: list[_State] = []
        for number in range(least if most is None else most):
            if number >= least:
                split = self._state(_SPLIT)
                whole.then(split)
                whole.ends = [split]
                skips.append(split)
            once = fragment if number == 0 else self._again(start, stop)
            whole.then(once.begin)
            whole.ends = once.ends
        if most is None:
            loop = self._state(_SPLIT)
            once = fragment if least == 0 else self._again(start, stop)
            whole.then(loop)
            loop.successors.append(once.begin)
            once.then(loop)
            whole.ends = [loop]
        whole.ends = whole.ends + skips
        return whole

    def _again(self, start: int, stop: int) -> _Fragment:
        self._at = start
        fragment = self._atom()
        assert self._at == stop
        return fragment

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._skip(sign):
                return bounds
        if not self._peek("{"):
            return None
        inside, closed, _ = self._text[self._at + 1 :].partition("}")
        low, comma, high = inside.partition(",")
        numbers = [each for each in (low, high) if each]
        if not closed or not numbers or not all(each.isascii() and each.isdecimal() for each in numbers):
            return None  # a literal brace
        if any(len(each) > 3 for each in numbers):
            self._wrong("a repetition of more than 999 times")
        self._at += len(inside) + 2
        least = int(low or 0)
        most = least if not comma else int(high) if high else None
        if most is not None and most < least:
            self._wrong("a repetition with a lower bound above its upper bound")
        return least, most

    def _atom(self) -> _Fragment:
        char = self._next("an expression is missing")
        if char == "(":
            return self._group()
        if char in "*+?":
            self._wrong("a repetition of nothing")
        if char == "^":
            return self._one(self._state(_BEGIN))
        if char == "$":
            return self._one(self._state(_END))
        if char == ".":
            return self._taking(lambda each: each != "\n")
        if char == "[":
            return self._taking(self._set_of_characters())
        if char == "\\":
            return self._escape()
        return self._taking(self._just(char))

    def _one(self, state: _State) -> _Fragment:
        return _Fragment(state, [state])

    def _taking(self, accepts: CharTest) -> _Fragment:
        return self._one(self._state(_TAKES, accepts))

    def _just(self, char: str) -> CharTest:
        wanted = char.lower() if self._ignore_case else char
        return lambda each: each == wanted

    def _group(self) -> _Fragment:
        if self._skip("?:"):
            pass
        elif self._skip("?P<"):
            self._at = self._text.find(">", self._at) + 1 or len(self._text)
        elif self._peek("?"):
            self._wrong("after (? only (?: and (?P<NAME> are supported, and (?i) at the beginning")
        self._depth += 1
        if self._depth > 50:
            self._wrong("more than 50 groups inside each other")
        fragment = self._either()
        self._depth -= 1
        if not self._skip(")"):
            self._wrong("a ( without its )")
        return fragment

    def _escape(self) -> _Fragment:
        char = self._next("a \\ at the end")
        if char == "A":
            return self._one(self._state(_BEGIN))
        if char in "bBZzGKQEX" or char in "123456789gkpP":
            self._wrong(f"\\{char} is not supported")
        return self._taking(self._escaped(char))

    def _escaped(self, char: str) -> CharTest:
        if char.lower() in _CLASSES:
            inside = _CLASSES[char.lower()]
            return inside if char.islower() else lambda each: not inside(each)
        if char.isalnum() and char not in _CONTROLS and char not in "xu":
            self._wrong(f"\\{char} is not supported")
        return self._just(self._literal(char))

    def _literal(self, char: str) -> str:
        """The character after a backslash: itself, a control character, or the one with a number."""
        if char not in "xu":
            return _CONTROLS.get(char, char)
        length = 2 if char == "x" else 4
        digits = self._text[self._at : self._at + length]
        try:
            number = int(digits, 16) if len(digits) == length else -1
        except ValueError:
            number = -1
        if number < 0:
            self._wrong(f"\\{char} without {length} hexadecimal digits")
        self._at += length
        return chr(number)

    def _set_of_characters(self) -> CharTest:
        inverted = self._skip("^")
        tests: list[CharTest] = []
        first = True
        while first or not self._skip("]"):
            first = False
            char = self._next("a [ without its ]")
            if char == "\\":
                char = self._next("a \\ at the end")
                if char.lower() in _CLASSES:
                    tests.append(self._escaped(char))
                    continue
                char = self._literal(char)
            if self._peek("-") and not self._peek("-]"):
                self._at += 1
                high = self._next("a [ without its ]")
                if high == "\\":
                    high = self._literal(self._next("a \\ at the end"))
                tests.append(self._between(char, high))
            else:
                tests.append(self._just(char))
        return lambda each: any(test(each) for test in tests) is not inverted

    def _between(self, low: str, high: str) -> CharTest:
        if high < low:
            self._wrong(f"the range {low}-{high} has its bounds in the wrong order")
        if self._ignore_case:
            return lambda each: low <= each <= high or low <= each.upper() <= high
        return lambda each: low <= each <= high
