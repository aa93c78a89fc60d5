"""Words and signs of SQL: which column names need quotes, and the messages for what the language lacks."""

__all__ = [
    "AGGREGATES",
    "LACKING",
    "QUOTED",
    "REFUSED_SIGNS",
    "RESERVED",
    "quote_name",
    "quote_text",
    "refusal_of",
    "refuse_aggregate",
    "spell_name",
]

# Words that name no column unless they stand in double quotes.
_RESERVED_WORDS = """
    ALL ALTER AND ANY ARRAY AS ASYMMETRIC BETWEEN CALL CASE CONNECT_BY_ROOT CREATE CROSS CURRENT_DATE CURRENT_TIME
    CURRENT_TIMESTAMP CURRENT_USER DESCRIBE DISTINCT DROP ELSE END EXCEPT EXECUTE EXPLAIN FALSE FETCH FOR FROM GLOB
    GRANT HAVING IF ILIKE IN INNER INSERT INTERSECT INTERVAL INTO IS ISNULL JOIN LATERAL LIKE LIST MAP NOT NOTNULL NULL
    NULLABLE OBJECT ON OPTIMIZE OR OUTER PARTITIONED_BY PREPARE QUALIFY RANGE REGEXP RENAME RETURNING REVOKE RLIKE
    ROLLBACK SELECT SHOW STRUCT SYMMETRIC TABLESAMPLE THEN TRUE UNCACHE UNION USING VACUUM VALUES WHEN WHERE WITH XOR
"""
# Words that an analyst may leave bare and that the canonical text quotes nevertheless. Texts are kept in ledgers: this list
# grows with no library.
_OTHER_WORDS = """
    ANALYZE ANTI APPLY ASC ASOF AUTOINCREMENT AUTO_INCREMENT BEGIN BIGDECIMAL BIGINT BIGNUM BIGNUMERIC BINARY BIT BLOB
    BOOL BOOLEAN BPCHAR BYTE BYTEA CACHE CHAR CHARACTER CLOB COLLATE COLUMN COMMENT COMMIT CONSTRAINT COPY CUBE
    CURRENT_CATALOG CURRENT_SCHEMA DATABASE DATE DATEMULTIRANGE DATERANGE DATETIME DEC DECFLOAT DECIMAL DECIMAL128
    DECIMAL256 DECIMAL32 DECIMAL64 DEFAULT DELETE DESC DIV DOUBLE ENUM ESCAPE EXISTS FILE FILTER FIRST FIXED FLOAT
    FLOAT4 FLOAT8 FORMAT FULL FUNCTION GEOGRAPHY GEOMETRY HUGEINT INDEX INET INT INT1 INT128 INT16 INT2 INT256 INT32
    INT4 INT4MULTIRANGE INT4RANGE INT64 INT8 INT8MULTIRANGE INT8RANGE INTEGER JSON JSONB KEEP KILL LEFT LIMIT LOAD
    LOCALTIME LOCALTIMESTAMP LOCK LONG LONGBLOB LONGTEXT LONGVARCHAR MEDIUMBLOB MEDIUMINT MEDIUMTEXT MERGE NAMESPACE
    NATURAL NCHAR NEXT NUMBER NUMERIC NUMMULTIRANGE NUMRANGE NVARCHAR NVARCHAR2 OFFSET OPERATOR ORDINALITY OUT OVER
    OVERLAPS OVERWRITE PARTITION PERCENT PIVOT PRAGMA PROCEDURE REAL RECURSIVE REF REFERENCES REPLACE RIGHT ROLLUP ROW
    ROWS SCHEMA SEMI SEQUENCE SESSION SESSION_USER SET SETTINGS SHORT SMALLINT SOME STR STRAIGHT_JOIN STRING TABLE TEMP
    TEMPORARY TEXT TIME TIMESTAMP TIMESTAMPLTZ TIMESTAMPNTZ TIMESTAMPTZ TIMESTAMP_LTZ TIMESTAMP_NTZ TIMETZ TIME_NS
    TINYBLOB TINYINT TINYTEXT TRIGGER TRUNCATE TSMULTIRANGE TSRANGE TSTZMULTIRANGE TSTZRANGE UHUGEINT UINT UINT128
    UINT256 UNIQUE UNKNOWN UNNEST UNPIVOT UPDATE USE UUID VARBINARY VARCHAR VARCHAR2 VARIANT VECTOR VIEW VOLATILE
    WINDOW
"""
RESERVED = frozenset(_RESERVED_WORDS.split())
QUOTED = RESERVED.union(_OTHER_WORDS.split())


def refusal_of(what: str, way: str = "") -> str:
    """Return the message for something outside the language, and what to write instead."""
    return f"{what} outside the query language" + (f"; {way}" if way else "")


_ONE_ROW = "a query looks at one row at a time"
_SAME = "a query is the same every time"
_PATTERN = "write LIKE with % and _"
_CUT = "write CAST(... AS INTEGER), which truncates towards zero"
_MEAN = f"{_ONE_ROW}, and the answer is its mean over all rows"
# The aggregates over the rows of a unit, each by its names.
AGGREGATES = {
    **{name: name for name in ("ANY", "EVERY", "SHARE", "COUNT", "SUM", "AVG", "MIN", "MAX", "FIRST")},
    **dict.fromkeys(("MEAN", "AVERAGE"), "AVG"),
    "COUNT_IF": "COUNT",
}
_OTHER_AGGREGATES = """
MEDIAN MODE STDDEV STDDEV_POP STDDEV_SAMP VARIANCE VAR_POP VAR_SAMP CORR COVAR_POP COVAR_SAMP QUANTILE PERCENTILE_CONT
PERCENTILE_DISC ANY_VALUE ARRAY_AGG STRING_AGG GROUP_CONCAT
"""
# Signs that stand nowhere in the language.
REFUSED_SIGNS = {
    **dict.fromkeys(("'", '"'), "a quote is not closed; text stands in '...', a name with spaces in \"...\""),
    **dict.fromkeys(("--", "/*"), refusal_of("comments are")),
    **dict.fromkeys(("[", "]", "{", "}", "?", "@"), refusal_of("brackets, braces and parameters are")),
    ";": refusal_of("a semicolon is", "a query is one expression"),
    "&&": refusal_of("the operator && is", "write AND"),
    "||": refusal_of("the operator || is", "between conditions write OR"),
    "//": refusal_of("the operator // is", "write CAST(a / b AS INTEGER)"),
    "%": refusal_of("the operator % is"),
    "^": refusal_of("the operator ^ is", "multiply"),
    "~": refusal_of("the operator ~ is", _PATTERN),
    "!": refusal_of("the operator ! is", "write NOT"),
}
# Words and signs that stand elsewhere, if at all, and functions.
LACKING = {
    ".": refusal_of("a dotted name is", "put a name with dots in double quotes"),
    "*": refusal_of("* is", "name the columns"),
    "DIV": refusal_of("the operator DIV is", "write CAST(a / b AS INTEGER)"),
    "XOR": refusal_of("XOR is", "write it with AND, OR and NOT"),
    "ILIKE": refusal_of("ILIKE is", "write LOWER(column) LIKE 'pattern'"),
    "ESCAPE": refusal_of("ESCAPE is", "only % and _ are wildcards, all else stands for itself"),
    "COLLATE": refusal_of("COLLATE is", "texts are compared by code points"),
    "SIMILAR": refusal_of("SIMILAR TO is", _PATTERN),
    "INTERVAL": refusal_of("INTERVAL is"),
    "DISTINCT": refusal_of("DISTINCT is", "compare with =, <> and IS NULL"),
    "SYMMETRIC": refusal_of("BETWEEN SYMMETRIC is", "write the lower end first"),
    "SELECT": refusal_of("a subquery is", _ONE_ROW),
    "EXISTS": refusal_of("EXISTS is", _ONE_ROW),
    "FILTER": refusal_of("FILTER is", _ONE_ROW),
    "OVER": refusal_of("a window function is", _ONE_ROW),
    "TRY_CAST": refusal_of("TRY_CAST is", "write CAST, which gives NULL where a number does not fit"),
    **dict.fromkeys(("REGEXP", "RLIKE", "REGEXP_LIKE", "REGEXP_MATCHES"), refusal_of("a regular expression is", _PATTERN)),
    **dict.fromkeys(("POW", "POWER"), refusal_of("a power is", "multiply")),
    **dict.fromkeys(("CONCAT", "CONCAT_WS"), refusal_of("joining texts is")),
    **dict.fromkeys(("FLOOR", "CEIL", "CEILING", "ROUND", "TRUNC"), refusal_of("rounding is", _CUT)),
    **dict.fromkeys(("RAND", "RANDOM"), refusal_of("RANDOM is", _SAME)),
    **{
        name: refusal_of(f"the function {name} is", _SAME)
        for name in ("NOW", *(word for word in RESERVED if "CURRENT_" in word))
    },
    **{name: refusal_of(f"the aggregate {name} is", _MEAN) for name in _OTHER_AGGREGATES.split()},
}


def refuse_aggregate(name: str) -> str:
    """Return the message for an aggregate where rows belong to no unit."""
    way = f"{_MEAN}; open the data with unit= to ask about all rows of a person"
    return refusal_of(f"the aggregate {name} is", way)


def quote_name(name: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def spell_name(name: str) -> str:
    """Return a name as a query may write it: as it is where that is a name, else in quotes."""
    return name if name.isidentifier() and name.upper() not in QUOTED else quote_name(name)


def quote_text(text: str) -> str:
    """Return a text as an SQL constant."""
    return "'" + text.replace("'", "''") + "'"
