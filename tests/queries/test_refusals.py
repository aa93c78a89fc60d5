"""What is refused, in which words, and that nothing but RequestError ever comes out (P2, P8, P10)."""

import pickle
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdtrue.errors import RequestError, UnknownColumn, UnsupportedQuery
from holdtrue.queries import Card, Column, parse
from queries.generating import CARD, random_query_text

REFUSED = [
    ("age // 2 > 1", "//"),
    ("age % 2 = 1", "%"),
    ("age DIV 2", "DIV"),
    ("age IN (SELECT age FROM people)", "subquery"),
    ("(SELECT 1)", "subquery"),
    ("EXISTS (SELECT 1)", "EXISTS"),
    ("age > (SELECT avg(age) FROM people)", "subquery"),
    ("count(*)", "COUNT"),
    ("avg(age) > 1", "AVG"),
    ("sum(age) OVER ()", "window"),
    ("row_number() OVER (ORDER BY age) = 1", "window"),
    ("lag(age) OVER (ORDER BY age)", "window"),
    ("my_function(age)", "my_function"),
    ("random() < 0.5", "RAND"),
    ("now() > 1", "outside"),
    ("current_timestamp > 1", "outside"),
    ("unnest(age)", "outside"),
    ("read_csv('x')", "read_csv"),
    ("getenv('HOME') = 'x'", "getenv"),
    ("age > ?", "parameters"),
    ("age > :limit", "parameters|read|outside"),
    ("age > @limit", "parameters"),
    ("age > $1", "no column"),
    ("age > 1; DROP TABLE people", "semicolon"),
    ("age > 1;", "semicolon"),
    ("age > 1 -- all", "comments"),
    ("age /* ; */ > 1", "comments"),
    ("name ILIKE 'a'", "LOWER"),
    ("name LIKE 'a!%' ESCAPE '!'", "ESCAPE"),
    ("name LIKE name", "pattern"),
    ("name LIKE ANY ('a', 'b')", "pattern"),
    ("name SIMILAR TO 'a'", "SIMILAR|read"),
    ("regexp_matches(name, 'a')", "outside"),
    ("name || 'x' = 'ax'", "outside"),
    ("name > 3", "mixes text and numbers"),
    ("name + 1", "takes numbers"),
    ("'a' = 1", "mixes"),
    ("age = NULL", "IS NULL"),
    ("age IN ('a', 'b')", "mixes"),
    ("age IN ('a', 1)", "mixes"),
    ("name IN (1, 2)", "mixes"),
    ("LENGTH(age)", "takes text"),
    ("age LIKE 'a'", "takes text"),
    ("smoker + 1", "CAST"),
    (
        "smoker > 1",
        "'smoker' is a yes-or-no column; compare it by = or <> with TRUE, FALSE, 'yes', 'no', 'true', 'false', 1",
    ),
    ("smoker = 'maybe'", "'smoker' is a yes-or-no column; compare it by = or <> with TRUE"),
    ("smoker <> 2", "yes-or-no column"),
    ("smoker = -1", "yes-or-no column"),
    ("smoker IN ('yes', 'perhaps')", "yes-or-no column"),
    ("'y' = smoker", "yes-or-no column"),
    ("CASE smoker WHEN 'maybe' THEN 1 END", "yes-or-no column"),
    ("(age > 1) > smoker", "TRUE, FALSE or another"),
    ("(age > 1) = 1", "TRUE, FALSE or another"),
    ("smoker = age", "yes-or-no column"),
    ("smoker = NULL", "IS NULL"),
    ("smoker < insured", "yes-or-no column"),
    ("age AND smoker", "compare it"),
    ("NOT age", "compare it"),
    ("name", "not text"),
    ("(age > 1) IS NULL", "test its columns"),
    ("COALESCE(smoker, FALSE)", "IS TRUE|CAST"),
    ("CASE WHEN smoker THEN 'a' ELSE 'b' END = 'a'", "CASE takes numbers"),
    ("CAST(name AS INTEGER)", "between numbers"),
    ("CAST(age AS VARCHAR)", "INTEGER"),
    ("CAST(age AS DECIMAL(3, 1))", "INTEGER"),
    ("TRY_CAST(age AS BIGINT)", "write CAST"),
    ("age IS DISTINCT FROM 1", "DISTINCT"),
    ("age BETWEEN SYMMETRIC 5 AND 1", "lower end first"),
    ("people.age > 1", "double quotes"),
    ("v1.score > 1", "double quotes"),
    ("age[1]", "brackets"),
    ("{'a': 1}", "braces|brackets"),
    ("* > 1", "outside|read"),
    ("age > 1e999", "largest double"),
    ("round(bmi)", "CAST"),
    ("pow(bmi, 2)", "multiply"),
    ("sqrt(bmi)", "sqrt"),
    ("date '2020-01-01' > 1", "mixes dates with numbers"),
    ("born > DATE '2026-02-30'", "'2026-02-30' is no date of the calendar; write DATE '2026-01-31', with years from 0001"),
    ("born > '2026-02-30'", "'2026-02-30' is no date of the calendar"),
    ("born > DATE '2023-02-29'", "no date of the calendar"),
    ("born = DATE '0000-01-01'", "years from 0001 to 9999"),
    ("born = DATE '10000-01-01'", "years from 0001 to 9999"),
    ("born = DATE '31.01.2026'", "no date of the calendar"),
    ("born = DATE '2026-1-31'", "no date of the calendar"),
    ("born IN (DATE '2026-01-31', '2026-13-01')", "'2026-13-01' is no date"),
    ("born BETWEEN '2026-01-31' AND 'soon'", "'soon' is no timestamp"),
    ("seen > TIMESTAMP '2026-01-31 24:00:00'", "no timestamp"),
    ("seen > TIMESTAMP '2026-02-30 10:00:00'", "'2026-02-30' is no date"),
    ("seen > TIMESTAMP '2026-01-31 10:00:00Z'", "without a time zone"),
    ("seen > TIMESTAMP '2026-01-31 10:00:00+01:00'", "without a time zone"),
    ("seen > TIMESTAMP '2026-01-31 10:00:00.1234567'", "no timestamp"),
    ("born", "not a date"),
    ("seen", "not a timestamp"),
    ("born > 5", "mixes dates with numbers"),
    ("born > name", "mixes dates with numbers or text"),
    ("born IN (1, 2)", "mixes dates"),
    ("age = DATE '2026-01-31'", "mixes dates"),
    ("born + 1 > DATE '2026-01-31'", "mixes dates|subtracted"),
    ("born + born", "subtracted from one another, in days"),
    ("born * 2", "mixes dates"),
    ("-born > 1", "takes numbers, not dates"),
    ("ABS(born)", "takes numbers, not dates"),
    ("seen - seen > 1", "CAST"),
    ("CASE WHEN smoker THEN born END = born", "CASE takes numbers, not dates"),
    ("YEAR(age) = 2026", "YEAR takes a date or a timestamp, not a number"),
    ("YEAR('2026-01-31') = 2026", "not text"),
    ("YEAR(born, 1)", "takes 1 operand"),
    ("CAST(born AS INTEGER) > 1", "cannot be converted"),
    ("CAST(age AS DATE) = born", "cannot be converted"),
    ("CAST(smoker AS DATE) = born", "cannot be converted"),
    ("CAST(name AS DATE) = born", "cannot be converted"),
    ("born LIKE '2026%'", "takes text"),
    ("LENGTH(born)", "takes text"),
    ("born AND smoker", "compare it"),
    ("DATE(born) = born", "outside"),
    ("current_date > born", "outside"),
    ("interval '1' day", "outside"),
    ("age AS a", "read"),
    ("age >", "read"),
    ("(age > 1", "read"),
    ("age > 1)", "read"),
    ("", "empty"),
    ("   ", "empty"),
    ("'open", "quote"),
    ("age > 'a\0b'", "NUL"),
    ("age > '\ud800'", "Unicode"),
    ("SELECT age FROM people", "write the condition alone"),
    ("WHERE age > 1", "write the condition alone"),
    ("age > 1 && smoker", "write AND"),
    ("mean(age)", "the answer is its mean over all rows"),
    ("DROP TABLE people", "read|outside|no column"),
    ("age > 1 UNION SELECT 1", "read|outside"),
    ("ABS(DISTINCT age)", "DISTINCT"),
    ("ABS(age, 1)", "takes 1 operand"),
    ("NULLIF(age)", "takes 2 operands"),
    ("IF(smoker)", "takes 2 or 3 operands"),
    ("interval > 1", "INTERVAL"),
    ("show > 1", "double quotes"),
    ("NOT !smoker", "write NOT"),
    ("age > 1 AND", "too early"),
    ("(1, 2) = (age, 3)", "list of values"),
    ("N'abc' = name", "outside"),
]


@pytest.mark.parametrize(("text", "words"), REFUSED, ids=[text[:30] for text, _ in REFUSED])
def test_what_the_language_lacks_is_refused_by_name(read, text, words):
    with pytest.raises(RequestError, match=words):
        read(text)


def test_a_query_must_be_a_text(read):
    for wrong in (None, 5, b"age > 1", ["age > 1"]):
        with pytest.raises(UnsupportedQuery, match="a query is a text"):
            read(wrong)


@pytest.mark.parametrize(("text", "meant"), [("agee > 1", "age"), ("NOT smoke", "smoker"), ("AGE > 65", "age")])
def test_an_unknown_column_suggests_the_nearest(read, text, meant):
    with pytest.raises(UnknownColumn, match=meant):
        read(text)


def test_odd_names_are_double_quoted(read):
    assert read('"blood pressure" > 1 AND "v1.score" < 2').columns == ("blood pressure", "v1.score")


def test_the_cap_on_length(read):
    fits = "name = '" + "x" * (4096 - 9) + "'"
    assert len(fits) == 4096
    assert read(fits)
    with pytest.raises(UnsupportedQuery, match="4097 bytes"):
        read(fits + " ")
    with pytest.raises(UnsupportedQuery, match="bytes"):
        read("name = '" + "é" * 2044 + "'")


def test_the_cap_on_nodes(read):
    """A comparison is three nodes, an operator between two is one: 64 comparisons are 255 nodes."""
    tests = [f"age > {number}" for number in range(64)]
    assert read(" OR ".join(tests))
    assert read(" OR ".join(tests[:63]) + " OR NOT smoker OR insured")
    with pytest.raises(UnsupportedQuery, match="256 nodes"):
        read(" OR ".join(tests) + " OR smoker")


DEEP = {
    "parentheses": lambda depth: "(" * depth + "age > 1" + ")" * depth,
    "nots": lambda depth: "NOT " * depth + "smoker",
    "signs": lambda depth: "- " * depth + "age",
    "pluses": lambda depth: "+ " * depth + "age",
    "functions": lambda depth: "ABS(" * depth + "age" + ")" * depth,
    "cases": lambda depth: "CASE WHEN smoker THEN " * depth + "1" + " END" * depth,
    "conditions": lambda depth: "CASE WHEN " * depth + "smoker" + " THEN 1 END > 0" * depth,
    "sums": lambda depth: "bmi + (" * depth + "bmi" + ")" * depth,
    "products": lambda depth: "(" * depth + "bmi" + " * 2 + 1)" * depth,
    "mixed": lambda depth: "NOT (" * depth + "smoker" + ")" * depth,
    "casts": lambda depth: "CAST(" * depth + "age" + " AS INTEGER)" * depth,
    "lists": lambda depth: "age IN (" * depth + "1" + ")" * depth,
}


@pytest.mark.parametrize("nested", DEEP.values(), ids=DEEP)
@pytest.mark.parametrize("depth", [34, 100, 300, 1000])
def test_deep_nesting_is_refused_and_never_overflows(read, nested, depth):
    with pytest.raises(UnsupportedQuery):
        read(nested(depth))


CHAINS = {
    "a majority": lambda names: " + ".join(names) + " > 50",
    "differences": lambda names: " - ".join(names) + " = 0",
    "quotients": " / ".join,
    "products and quotients": lambda names: " * 2 / ".join(names[:60]),
    "sums of products": lambda names: " + ".join(
        f"{one} * {other}" for one, other in zip(names[:60], names[40:], strict=True)
    ),
    "lengths": lambda _: " + ".join(["LENGTH(s)"] * 80) + " > 300",
    "conjunctions": lambda names: " AND ".join(f"{name} > 1" for name in names[:60]),
}


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_a_chain_is_one_level_wherever_it_is_called(chain):
    names = [f"a{number}" for number in range(1, 101)]
    card = Card((*(Column(name, "integer") for name in names), Column("s", "text")), 3)
    text = chain(names)

    def called(frames):
        return parse(text, card) if frames == 0 else called(frames - 1)

    query = called(0)
    assert called(sys.getrecursionlimit() - 300) == query == parse(query.text, card)
    assert pickle.loads(pickle.dumps(query)) == query  # noqa: S301 - as Spark carries it


@pytest.mark.parametrize("nested", [DEEP["parentheses"], DEEP["nots"], DEEP["functions"], DEEP["cases"]])
def test_the_depth_that_is_allowed_is_allowed_wherever_it_is_called(read, nested):
    """Also from a stack that has nearly used up Python's own limit."""

    def called(frames):
        return read(nested(30)) if frames == 0 else called(frames - 1)

    assert called(0) == called(sys.getrecursionlimit() - 300)


def test_what_grows_when_it_is_written_out_is_refused(read):
    with pytest.raises(UnsupportedQuery, match="too complex"):
        read("bmi / (" * 14 + "bmi" + ")" * 14)
    assert read("bmi / (" * 9 + "bmi" + ")" * 9)
    nested = "smoker"
    for _ in range(9):
        nested = f"CAST({nested} AS INTEGER) > 0"
    with pytest.raises(UnsupportedQuery, match="too complex"):
        read(nested)


TOKENS = (
    "age smoker bmi name region AND OR NOT IN LIKE IS NULL BETWEEN CASE WHEN THEN ELSE END CAST AS INTEGER DOUBLE ABS "
    "LEAST SELECT FROM WHERE WITH OVER PARTITION BY EXISTS ( ) , . ; : :: ? @ $ # ~ ^ & | || [ ] { } -> ->> => <=> = <> < > "
    "<= >= + - * / // % ' '' \" `` ` \\ -- /* */ 1 0 1.5 1e5 1e999 0x1F 'a' '%' E'a' \u00e9 \u2028 \x01 TRUE FALSE "
    "INTERVAL DATE ANY ALL SOME DISTINCT ARRAY STRUCT MAP LAMBDA x:x ROW VALUES TABLE UNNEST PIVOT QUALIFY FILTER WITHIN "
    "GROUP ESCAPE COLLATE AT TIME ZONE CURRENT_DATE NEXT VALUE FOR MATCH AGAINST OVERLAPS GLOBAL SIMILAR TO REGEXP RLIKE "
    "GLOB XOR DIV MOD"
)
ALPHABET = st.sampled_from(TOKENS.split(" "))
FUZZ = settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True)


def _harmless(text):
    try:
        query = parse(text, CARD)
    except RequestError:
        return
    assert parse(query.text, CARD) == query


@FUZZ
@given(st.lists(ALPHABET, max_size=25).map(" ".join))
def test_garbage_raises_nothing_but_request_errors(text):
    _harmless(text)


@FUZZ
@given(st.text(max_size=60))
def test_any_text_raises_nothing_but_request_errors(text):
    _harmless(text)


@FUZZ
@given(st.integers(0, 2**63), st.integers(0, 400), ALPHABET)
def test_damaged_queries_raise_nothing_but_request_errors(seed, place, damage):
    text = random_query_text(np.random.default_rng(seed), depth=2)
    _harmless(text[: place % (len(text) + 1)] + damage + text[place % (len(text) + 1) :])


def test_messages_speak_of_the_request_only(read):
    """There are no rows here, so a message cannot hold one; it is the same however often it is raised."""
    messages = set()
    for _ in range(3):
        with pytest.raises(UnsupportedQuery) as caught:
            read("avg(age)")
        messages.add(str(caught.value))
    (message,) = messages
    assert message.startswith("the aggregate AVG is outside the query language; a query looks at one row at a time")
