"""P2 and P10: emitted text is our own grammar, cannot raise, and gives the integers of the reference on every engine."""

import re

import duckdb
import numpy as np
import pytest
import sqlglot
from sqlglot import expressions as exp
from sqlglot.tokens import Tokenizer

from holdtrue.errors import InvalidParameter, RequestError
from holdtrue.queries import Card, Column, parse
from holdtrue.queries import emitters as emitted
from holdtrue.queries.evaluator import Values, evaluate, satisfies
from queries.generating import CARD, WORDS, adversarial_rows, arrow, random_query_text, written

BITS = 20
NAMES = {column.name for column in CARD.columns}


def _queries(rng, count, *, depth=3):
    found = []
    while len(found) < count:
        try:
            found.append(parse(random_query_text(rng, depth=depth), CARD))
        except RequestError:
            continue
    return found


def _connect(columns, *, threads=1, settings=()):
    connection = duckdb.connect(config={"threads": threads})
    for setting in settings:
        connection.execute(setting)
    held = arrow(columns)  # noqa: F841 - DuckDB finds it by name
    connection.execute("CREATE TABLE rows AS SELECT * FROM held")
    return connection


def _computed(connection, texts, *, batch=50):
    """Return what DuckDB makes of each expression, many to a statement."""
    found = []
    for start in range(0, len(texts), batch):
        listed = ", ".join(f"{text} AS q{place}" for place, text in enumerate(texts[start : start + batch]))
        columns = connection.execute(f"SELECT {listed} FROM rows").fetchnumpy()  # noqa: S608 - emitted text
        found += [columns[f"q{place}"] for place in range(len(columns))]
    return found


def _differences(found, expected):
    return sum(one.dtype != np.int64 or not np.array_equal(one, other) for one, other in zip(found, expected, strict=True))


def test_p2_ten_thousand_queries_give_equal_integers(rng):
    columns = adversarial_rows(rng)
    queries = _queries(rng, 10_000)
    found = _computed(_connect(columns), [emitted.emit_duckdb(query, BITS) for query in queries])
    wrong = [
        query.text
        for query, one in zip(queries, found, strict=True)
        if one.dtype != np.int64 or not np.array_equal(one, evaluate(query, columns, BITS))
    ]
    assert not wrong, wrong[:5]


@pytest.mark.parametrize(
    "settings",
    [
        ("SET disabled_optimizers = 'statistics_propagation'",),
        ("PRAGMA disable_optimizer",),
        ("SET disabled_optimizers = 'expression_rewriter, common_subexpressions'",),
    ],
    ids=["as the engine runs it", "no optimiser", "as it is written"],
)
def test_p2_whatever_the_optimiser_does(rng, settings):
    columns = adversarial_rows(rng)
    queries = _queries(rng, 600, depth=4)
    found = _computed(_connect(columns, settings=settings), [emitted.emit_duckdb(query, BITS) for query in queries])
    assert not _differences(found, [evaluate(query, columns, BITS) for query in queries])


def test_p2_two_threads_on_many_row_groups(rng):
    base = adversarial_rows(rng)
    copies = 1200
    many = {name: Values(np.tile(one.data, copies), np.tile(one.valid, copies)) for name, one in base.items()}
    queries = _queries(rng, 60)
    texts = [f"sum({emitted.emit_duckdb(query, BITS)})::HUGEINT::VARCHAR" for query in queries]
    expected = [copies * int(evaluate(query, base, BITS).sum(dtype=object)) for query in queries]
    for threads in (1, 2):
        found = _computed(_connect(many, threads=threads), texts)
        assert [int(one[0]) for one in found] == expected


def test_p2_conditions_are_true_or_false_on_every_row(rng):
    columns = adversarial_rows(rng)
    trees = [query.tree for query in _queries(rng, 800) if query.boolean]
    found = _computed(_connect(columns), [emitted.duckdb_condition(tree) for tree in trees])
    for tree, one in zip(trees, found, strict=True):
        assert one.dtype == np.bool_
        assert np.array_equal(one, satisfies(tree, columns))


@pytest.mark.parametrize("bits", [0, 1, 31, 52, 53, 60])
def test_p2_every_fineness_of_the_grid(rng, bits):
    columns = adversarial_rows(rng)
    queries = [parse(text, CARD) for text in ("x", "x / 3", "i", "b", "ABS(x) / 7", "CASE WHEN b THEN x ELSE 0.5 END")]
    found = _computed(_connect(columns), [emitted.emit_duckdb(query, bits) for query in queries])
    expected = [evaluate(query, columns, bits) for query in queries]
    assert not _differences(found, expected)
    assert all(one.min() >= 0 and one.max() <= 2**bits for one in found)


def test_p2_the_comparison_has_power(rng):
    """Controls that must fail: SQL as an analyst would write it raises, or takes NaN for the largest number."""
    connection = _connect(adversarial_rows(rng))
    for text in ("1 // (i - 40)", "i + 1", "abs(i)", "CAST(x AS BIGINT)"):
        with pytest.raises(duckdb.Error):
            connection.execute(f"SELECT {text} FROM rows").fetchall()  # noqa: S608 - the control
    columns = {"x": Values(np.array([0.0, np.nan, 2.0]), np.array([True, True, True]))}
    naive = "CAST(CASE WHEN x > 1 THEN 1048576 ELSE 0 END AS BIGINT)"
    query = parse("x > 1", CARD)
    assert _differences(_computed(_connect(columns), [naive]), [evaluate(query, columns, BITS)]) == 1
    assert (
        _differences(_computed(_connect(columns), [emitted.emit_duckdb(query, BITS)]), [evaluate(query, columns, BITS)]) == 0
    )


def test_p2_guards_of_divisions_hold_however_they_are_evaluated(rng):
    columns = adversarial_rows(rng)
    texts = ["1 / (i - 40)", "1 / (0 * i)", "x / (y - y)", "1 / (1 / x)", "CASE WHEN x <> 0 THEN 1 / x ELSE 1 / (x * 0) END"]
    texts += [
        "1 / CAST(x AS INTEGER)",
        "x / LENGTH(s)",
        "i / (LENGTH(s) - LENGTH(s)) + 1",
        "x / 0",
        "1e308 / 5e-324",
    ]
    queries = [parse(text, CARD) for text in texts]
    found = _computed(_connect(columns), [emitted.emit_duckdb(query, BITS) for query in queries])
    assert not _differences(found, [evaluate(query, columns, BITS) for query in queries])


def test_p2_the_heaviest_queries_run(rng):
    columns = adversarial_rows(rng)
    texts = [
        "x / (" * 9 + "y" + ")" * 9,
        " OR ".join(f"x > {number}.5" for number in range(64)),
        "COALESCE(x, " * 8 + "y" + ")" * 8,
    ]
    texts += ["+".join(["x * y"] * 25), "CASE WHEN x > y THEN " * 12 + "1" + " ELSE x END" * 12]
    queries = [parse(text, CARD) for text in texts]
    found = _computed(_connect(columns), [emitted.emit_duckdb(query, BITS) for query in queries])
    assert not _differences(found, [evaluate(query, columns, BITS) for query in queries])


DIALECTS = {"duckdb": emitted.emit_duckdb, "spark": emitted.emit_spark, "postgres": emitted.emit_postgres}
KNOWN = {
    "Coalesce",
    "Least",
    "Greatest",
    "Abs",
    "Length",
    "Translate",
    "Trunc",
    "Floor",
    "Cast",
    "TryCast",
    "Case",
    "If",
    "And",
    "Or",
}
KNOWN |= {"SafeDivide", "Anonymous", "Collate", "Extract", "DateFromUnixDate"}
SCAFFOLD = {"l", "r", "m", "k", "q", "t", "C"}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_p10_emitted_text_is_our_grammar_and_names_columns_of_the_card_only(rng, dialect):
    for query in _queries(rng, 400):
        text = DIALECTS[dialect](query, BITS)
        tree = sqlglot.parse_one(text, dialect=dialect)
        names = {node.this for node in tree.find_all(exp.Identifier)}
        assert names <= set(query.columns) | (SCAFFOLD if dialect == "postgres" else set()), text
        functions = {type(node).__name__ for node in tree.find_all(exp.Func)}
        assert functions <= KNOWN, functions - KNOWN
        assert {node.name.lower() for node in tree.find_all(exp.Anonymous)} <= {"shiftright", "try_divide"}
        assert not list(tree.find_all(exp.Placeholder, exp.Parameter, exp.Semicolon, exp.Command, exp.AggFunc, exp.Window))


@pytest.mark.parametrize(
    "word", [*WORDS, "'; DROP TABLE rows; --", "\\'; DROP TABLE rows; --", "' OR '1' = '1", "${x}", "{{x}}"]
)
def test_p10_a_text_constant_is_one_constant(word):
    """Whatever is between the quotes reads back as itself, in the tokens of each dialect and in DuckDB's own answer."""
    query = parse(f"s = {written(word)}", CARD)
    for dialect, emit in DIALECTS.items():
        literals = [
            node.this
            for node in sqlglot.parse_one(emit(query, BITS), dialect=dialect).find_all(exp.Literal)
            if node.is_string
        ]
        raw = [node.this for node in sqlglot.parse_one(emit(query, BITS), dialect=dialect).find_all(exp.ByteString)]
        assert word in literals + raw + [literal.replace("\\\\", "\\") for literal in literals + raw], dialect
    columns = {"s": Values(np.array([word, word + "x"], dtype=object), np.array([True, True]))}
    connection = _connect(columns)
    assert _computed(connection, [emitted.emit_duckdb(query, 0)])[0].tolist() == [1, 0]
    assert connection.execute("SELECT count(*) FROM rows").fetchone() == (2,)


@pytest.mark.parametrize(
    "name", ['a"b', "a`b", "a'b", "a; DROP TABLE rows", "a--b", "select", "a.b", "ä", " ", "$1", "l", "q", "[x]"]
)
def test_p10_an_odd_name_is_quoted(name):
    card = Card((Column(name, "real"),), 1)
    query = parse('"' + name.replace('"', '""') + '" + 1 > 2', card)
    assert parse(query.text, card) == query
    for dialect, emit in DIALECTS.items():
        names = {node.this for node in sqlglot.parse_one(emit(query, BITS), dialect=dialect).find_all(exp.Identifier)}
        assert name in names
    connection = _connect({name: Values(np.array([0.5, 1.5]), np.array([True, True]))})
    assert _computed(connection, [emitted.emit_duckdb(query, 0)])[0].tolist() == [0, 1]


def test_p10_nothing_of_the_analysts_text_is_forwarded():
    """Two spellings of one query give one text, and marks of the spelling are gone."""
    plain = parse("x > 1.5 AND s = 'a'", CARD)
    odd = parse("(  's' = LOWER('S') ) AnD ((1.50e0) < x) and NOT NOT (s IN ('a'))", CARD)
    for emit in DIALECTS.values():
        assert emit(plain, BITS) == emit(odd, BITS)
        assert not re.search("AnD|1.50e0|LOWER", emit(odd, BITS))


def test_the_reserved_words_of_the_parser_are_quoted_in_the_canonical_text():
    for word in sorted(Tokenizer.KEYWORDS):
        if word.isidentifier():
            card = Card((Column(word.lower(), "integer"),), 1)
            query = parse(f'"{word.lower()}" > 1', card)
            assert parse(query.text, card) == query


def test_bits_and_trees_are_checked():
    query = parse("x", CARD)
    for emit in DIALECTS.values():
        with pytest.raises(InvalidParameter, match="bits"):
            emit(query, 61)
    with pytest.raises(InvalidParameter, match="condition"):
        emitted.duckdb_condition(query.tree)
