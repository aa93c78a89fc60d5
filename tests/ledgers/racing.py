"""Processes that race for one budget; run as a program: ``python racing.py WHERE PROCESSES ASKS MODE``.

Prints how many asks were granted. MODE is ``ledger``, or ``naive`` for the control: read the total, compare, write.
"""

import os
import sqlite3
import sys

import psycopg
import sqlalchemy as sa

from holdtrue.errors import BudgetExceeded
from holdtrue.ledgers import open_ledger
from ledgers.places import request

NAIVE_BUDGET = 1000


def ask_the_ledger(where, asks):
    granted = 0
    with open_ledger(where) as ledger:
        for step in range(asks):
            try:
                ledger.charge(**request(f"{os.getpid()} {step}"))
                granted += 1
            except BudgetExceeded:
                pass
    return granted


def connect(where):
    if not where.startswith("postgresql"):
        return sqlite3.connect(where, timeout=60, isolation_level=None)
    query = sa.make_url(where).query
    return psycopg.connect(f"host={query['host']} user=holdtrue dbname=postgres options={query['options']}", autocommit=True)


def ask_naively(where, asks):
    connection = connect(where)
    granted = 0
    for _ in range(asks):
        (spent,) = connection.execute("SELECT count(*) FROM naive").fetchone()
        if spent < NAIVE_BUDGET:
            connection.execute("INSERT INTO naive VALUES (1)")
            granted += 1
    return granted


def main():
    where, processes, asks, mode = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    if mode == "naive":
        connection = connect(where)
        connection.execute("CREATE TABLE naive (cost INTEGER)")
        connection.close()
    ask = ask_naively if mode == "naive" else ask_the_ledger
    pipes = []
    for _ in range(processes):
        reader, writer = os.pipe()
        if os.fork() == 0:
            try:
                os.write(writer, str(ask(where, asks)).encode())
            finally:
                os._exit(0)
        os.close(writer)
        pipes.append(reader)
    granted = sum(int(os.read(reader, 100) or b"-1000000") for reader in pipes)
    sys.stdout.write(f"{granted}\n")


if __name__ == "__main__":
    main()
