"""What is skimmed is what sqlglot reads: node for node, and query for query, over texts that try to tell them apart."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import sqlglot
from sqlglot import expressions as exp
from sqlglot.parser import Parser
from sqlglot.tokens import Tokenizer

from holdtrue.errors import RequestError
from holdtrue.queries import Card, Column, parse, skimming
from holdtrue.queries.reading import read
from queries.generating import CARD, WORDS, random_query_text, written

PLAIN = [
    "i > 65 AND b",
    "x <= 0.5 or NOT c AND (s = 'it''s' OR t <> '')",
    "i BETWEEN -1 AND 2 AND j not between 1 AND i + 1",
    "i IN (1, -2, 3.5) AND s NOT IN ('a', 'b')",
    "x / 2 - -y * (i + 1e-3) >= 007",
    "s LIKE 'a%' AND t NOT LIKE '_' AND \"a b.c\" != 1 AND x == 1",
    "b IS TRUE AND c IS NOT FALSE AND x IS NULL AND s is not null",
    "NOT NOT (TRUE = b)\n\tAND NULL IS NULL",
    " OR ".join(f"i = {value}" for value in range(60)),
]
# Each looks plain at some place, and means something else, or nothing, or is left to sqlglot to spare a rule.
OTHER = r"""
i > 1 -- b | i --1 > 0 | i /* b */ > 1 | i // 2 > 1 | i <=> 1 | i => 1 | i -> 1 | i ! = 1 | i !> 1 | i ** 2 > 1 | i > 1;
i > .5 | i > 5. | i > 1e | i > 1_000 | i > 0x1F | i > 1.5.2 | i > 1x | i > 1 2 | +i > 1 | i > 1e5+1 | i > 1e55-1 | i = 1e5e5
N'a' = s | s = 'a' 'b' | s = 'a\' | s = "a" | s = 'é' | s = 'open | i" | i ' ' | s LIKE t | s LIKE 'a' 'b' | "s"'a'
i = j = 1 | i < j < 1 | x IS NULL IS NULL | i BETWEEN 1 AND 2 IS TRUE | 1 + NOT b | - NOT b | i IS 1 | i IN 1 | i NOT NULL
i IN () | i IN (1,) | (1, 2) = 3 | () | i > | (i > 1 | i > 1) | AND | i NOT 1 | select | aNd | unknown > 1 | I > 1 | t.i > 1
ABS(i) > 1 | CASE WHEN b THEN 1 END | i::int > 1 | i[1] > 1 | i > ? | i & 1 > 0 | i IS NOT DISTINCT FROM 1 | i AND b c | i !
"""
ODD = ['"s""t" = 1', "", " ", "i\x0b> 1", "i\u00a0> 1", "s = 'a\0'", "s = 'a\ud800'", "i || 1"]
GAPS = "\t \n ; . , : ? ! @ # $ % ^ & * ( ) [ ] { } < > = + - / | \\ ' \" ` ~ _ -- /* // <=> \x0b \0 é 0 1. .5 e x N"
BETWEEN = "AND OR NOT IN IS LIKE BETWEEN NULL TRUE i b s CASE DISTINCT XOR ESCAPE COLLATE"


class _Writer:
    """Plain texts, and such as are nearly plain: every rule, with and without the spaces that it does not need."""

    def __init__(self, rng):
        self._rng = rng

    def pick(self, *options):
        return options[self._rng.integers(len(options))]

    def number(self):
        known = ("i", "j", "x", "y", '"a b.c"', "(i)", "-x", "- -1", "5.", ".5", "1e5", "1E-3", "007", "9223372036854775808")
        return self.pick(*known, str(self._rng.integers(200)), f"{self._rng.random():.3f}")

    def sum(self):
        steps = [self.pick("+", " - ", "*", "/", " * ") + self.number() for _ in range(self._rng.integers(4))]
        return self.number() + "".join(steps)

    def test(self):
        denied = self.pick("", "NOT ", "not ")
        word = written(self.pick(*WORDS))
        return self.pick(
            lambda: self.sum() + self.pick("=", " <> ", "<", "<=", " > ", ">=", "!=", "==") + self.sum(),
            lambda: self.pick("b", "c", '"select"', "TRUE", "false", "NULL", self.sum()),
            lambda: f"{self.pick('i', 'x', 's', 'b', self.sum())} IS {denied}{self.pick('NULL', 'TRUE', 'false')}",
            lambda: f"{self.sum()} {denied}BETWEEN {self.sum()} {self.pick('AND', 'and')} {self.sum()}",
            lambda: f"{self.sum()} {denied}IN({', '.join(self.sum() for _ in range(self._rng.integers(1, 4)))})",
            lambda: f"{self.pick('s', 't')} {denied}LIKE {word}",
            lambda: f"{self.pick('s', 't')}{self.pick('=', '<>', '<')}{word}",
            lambda: f"({self.condition()})",
            lambda: f"NOT {self.test()}",
            lambda: f"NOT({self.test()})",
        )()

    def condition(self):
        tests = [self.test() for _ in range(self._rng.integers(1, 4))]
        return tests[0] + "".join(f" {self.pick('AND', 'OR', 'and', 'Or')} {test}" for test in tests[1:])

    def damaged(self, text):
        place, end = sorted(self._rng.integers(0, len(text) + 1, size=2))
        gap = self.pick(self.pick(*GAPS.split(" ")), f" {self.pick(*BETWEEN.split())} ")
        words = text.split(" ")
        one, other = self._rng.integers(len(words), size=2)
        words[one], words[other] = words[other], words[one]
        return self.pick(text[:place] + gap + text[place:], text[:place] + text[min(end, place + 3) :], " ".join(words))


def texts(rng, count):
    """Yield as many texts of the language, plain texts and damaged ones of both, in turn."""
    writer = _Writer(rng)
    for _ in range(count // 4):
        full, plain = random_query_text(rng, depth=int(rng.integers(3))), writer.condition()
        yield from (full, plain, writer.damaged(plain), writer.damaged(writer.pick(full, plain)))


def shape(part):
    """Return an expression as plain values, every part of it in its order."""
    if isinstance(part, exp.Expr):
        return type(part), [(name, shape(value)) for name, value in part.args.items()]
    return [shape(one) for one in part] if isinstance(part, list) else (type(part), part)


def outcome(work):
    try:
        return work()
    except RequestError as error:
        return type(error), str(error)


def nothing(_text, _card):
    return None


def by_sqlglot_alone(text, card):
    with mock.patch.object(skimming, "skim", nothing):
        return outcome(lambda: parse(text, card))


def differences(written_texts, card=CARD):
    """Yield the texts of which skimming gives another expression, another query or another refusal than sqlglot."""
    for text in written_texts:
        skimmed = skimming.skim(text, card)
        if skimmed is not None and (
            shape(skimmed) != outcome(lambda text=text: shape(read(text)))
            or outcome(lambda text=text: parse(text, card)) != by_sqlglot_alone(text, card)
        ):
            yield text


@pytest.mark.parametrize("part", range(4))
def test_what_is_skimmed_is_what_sqlglot_reads(rng, part):  # noqa: ARG001 - each part has texts of its own, by its name
    tried = list(texts(rng, 5200))
    assert list(differences(tried)) == []
    answered = sum(skimming.skim(text, CARD) is not None for text in tried)
    assert 1500 < answered < len(tried) - 1500


@pytest.mark.parametrize("text", PLAIN)
def test_plain_texts_are_skimmed(text):
    assert skimming.skim(text, CARD) is not None
    assert list(differences([text])) == []


@pytest.mark.parametrize("text", [*re.split(r" \| |\n", OTHER.strip()), *ODD])
def test_other_texts_are_left_to_sqlglot(text):
    assert skimming.skim(text, CARD) is None


def test_the_caps_are_those_of_sqlglot():
    for depth in range(26, 36):
        nested = [
            "(" * depth + "b" + ")" * depth,
            "NOT " * depth + "b",
            "- " * depth + "i",
            "NOT (" * depth + "b" + ")" * depth,
        ]
        nested += [" + ".join(["x"] * depth), " * ".join(["x"] * depth), f"({' - '.join(['x'] * depth)}) > 1 AND b AND c"]
        nested += ["(" * (depth // 2) + " * ".join(["x"] * (depth // 2)) + ")" * (depth // 2)]
        assert list(differences(nested)) == []
    for count in range(60, 68):
        chain = " OR ".join(f"i = {value}" for value in range(count))
        assert (
            list(differences([chain, f"{chain} OR b", f"{chain} OR NOT b OR c", f"i IN ({', '.join('1' * 4 * count)})"]))
            == []
        )
    assert skimming.skim("b" + " " * 4096, CARD) is None


def test_names_that_sqlglot_reads_in_a_way_of_its_own_are_left_to_it(rng):
    """A column may be called like any word that the parser knows; its source names them all."""
    source = Path(sqlglot.__file__).with_name("parser.py").read_text()
    known = {*re.findall(r'"([A-Z][A-Z_]+)"', source), *Parser.NO_PAREN_FUNCTION_PARSERS, "USER", "DEFINED", "N", "E", "X"}
    known |= {word for keyword in Tokenizer.KEYWORDS for word in re.findall(r"[A-Z]\w*", keyword)}
    names = sorted(known)
    card = Card(tuple(Column(name.lower(), "real") for name in names), rows=1)
    forms = [
        "{} > {}",
        "{}-{}<1",
        "NOT {} BETWEEN {} AND 1",
        "1 = {} AND ({}) IS NULL",
        "1 IN ({}, {})",
        "{} IN ({})",
        "-{}*{}>1",
    ]
    pairs = pairwise(names[place] for place in rng.permutation(len(names)))
    tried = [forms[rng.integers(len(forms))].format(one.lower(), other.lower()) for one, other in pairs]
    assert list(differences([*tried, "user-defined > 1", "1 BETWEEN symmetric AND 2"], card)) == []
    assert {name for name in ("age", "symmetric", "interval", "case", "any") if skimming._plain(name)} == {"age"}


def _tighter_not(reader):
    if not reader._take("NOT"):
        return TEST(reader)
    found = exp.Not(this=reader._sum())
    kind = skimming._COMPARISONS.get(reader._tokens[reader._next])
    reader._next += kind is not None
    return found if kind is None else kind(this=found, expression=reader._sum())


def _flat_product(reader):
    found = reader._operand()
    while (sign := reader._tokens[reader._next]) in ("*", "/", "+", "-"):
        reader._next += 1
        kind = {"*": exp.Mul, "/": exp.Div, "+": exp.Add, "-": exp.Sub}[sign]
        found = kind(
            this=found, expression=reader._operand(), **({"typed": False, "safe": False} if kind is exp.Div else {})
        )
    return found


TEST = skimming._Reader._test
NO_COMMENTS = re.compile(skimming._TOKENS.pattern.replace("--|", ""), re.ASCII)
FAULTS = {
    "a comparison off by its end": lambda: mock.patch.dict(skimming._COMPARISONS, {"<": exp.LTE}),
    "NOT before a comparison": lambda: mock.patch.object(skimming._Reader, "_test", _tighter_not),
    "one level for sums and products": lambda: mock.patch.object(skimming._Reader, "_sum", _flat_product),
    "comments unseen": lambda: mock.patch.object(skimming, "_TOKENS", NO_COMMENTS),
    "sums turned round": lambda: mock.patch.dict(skimming._SUMS, {"-": exp.Add}),
    "no cap on depth": lambda: mock.patch.multiple(skimming, DEEPEST=99),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_is_found(fault):
    rng = np.random.default_rng(1)
    with fault():
        assert next(differences([*texts(rng, 800), "i = 1 --1", "NOT " * 33 + "b"]), None) is not None


def test_a_name_taken_on_trust_is_found():
    card = Card((Column("symmetric", "real"), Column("date", "real")), rows=1)
    with mock.patch.object(skimming, "_plain", return_value=True):
        assert list(differences(["date > 1", "1 BETWEEN symmetric AND 2"], card)) == ["1 BETWEEN symmetric AND 2"]


def _outcome(text):
    try:
        return parse(text, CARD)
    except RequestError as error:
        return type(error), str(error)


def _conjunctions(rng):
    """Texts of tests joined by AND, most of them plain, with names, constants and gaps that try to be taken for another."""
    names = ["i", "j", "x", "y", "b", "c", "s", "t", "TRUE", "NULL", "NOT", "select", "unknown", "AND", '"a b.c"', "(i)"]
    constants = [
        "1",
        "-1",
        "0.5",
        "1e5",
        "007",
        "'a'",
        "'a AND b'",
        "'it''s'",
        "''",
        "x",
        "TRUE",
        "NULL",
        "9223372036854775808",
    ]
    signs = ["=", "<>", "!=", "==", "<", "<=", ">", ">=", "=>", "! ="]
    pick = lambda options: options[rng.integers(len(options))]  # noqa: E731 - short, and used here only
    for _ in range(3_000):
        tests = []
        for _ in range(rng.integers(1, 5)):
            gap = pick(["", " ", " ", "  "])
            tests.append(pick(names[:8]) + gap + pick(signs) + gap + pick(constants) if rng.random() < 0.7 else pick(names))
        yield pick([" AND ", " AND ", " and ", "  AND ", " OR "]).join(tests)


def test_tests_that_are_kept_give_the_query_of_the_whole_text():
    texts = [*PLAIN, *_conjunctions(np.random.default_rng(31))]
    with mock.patch.object(skimming, "tests_of", return_value=[]):
        whole = [_outcome(text) for text in texts]
    used = [bool(skimming.tests_of(text)) for text in texts]
    assert sum(used) > 300
    for _ in range(2):  # lowered, and then kept
        assert [_outcome(text) for text in texts] == whole
    assert len({found for found in whole if not isinstance(found, tuple)}) > 100


def test_tests_are_kept_for_one_card_only():
    other = Card(tuple(Column(column.name, "real") for column in CARD.columns), CARD.rows)
    assert parse("i > 0.5 AND i < 9", CARD) != parse("i > 0.5 AND i < 9", other)
    assert parse("i > 0.5 AND i < 9", CARD) == parse("i >= 1 AND i <= 8", CARD)


def _tests_joined(random):
    columns = [column.name for column in CARD.columns if column.name.isidentifier()]
    tests = []
    for _ in range(random.integers(1, 6)):
        name, kind = random.choice(columns), random.choice(["<", "<=", ">", ">=", "=", "<>", "!=", "==", ""])
        constant = random.choice(["1", "0.5", "-3", "2.0", "2", "99999999999999999999", "'a'", "'b'"])
        tests.append(f"{name} {kind} {constant}" if kind else name)
    return str(random.choice([" AND ", " and "])).join(tests)


def _meaning(text):
    try:
        return parse(text, CARD)
    except RequestError as error:
        return str(error)


def test_a_conjunction_put_together_from_its_tests_is_the_one_that_is_lowered(monkeypatch):
    from holdtrue.queries import parsing

    random = np.random.default_rng(2718)
    texts = [_tests_joined(random) for _ in range(3000)]
    quick, met = parsing._conjoined, []
    monkeypatch.setattr(parsing, "_conjoined", lambda tests: met.append(quick(tests)) or met[-1])
    found = [_meaning(text) for text in texts]
    assert sum(query is not None for query in met) > 60
    monkeypatch.setattr(parsing, "_conjoined", lambda _: None)
    assert [_meaning(text) for text in texts] == found
    # The planted fault: a conjunction that does not look for opposites.
    blind = "i > 1 AND i <= 1"
    truth = _meaning(blind)
    monkeypatch.setattr(parsing, "_conjoined", lambda tests: quick([replace(test, denied="") for test in tests]))
    assert _meaning(blind) != truth
