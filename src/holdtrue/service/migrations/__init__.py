"""The service's own tables, by revision: Alembic runs what is missing when the service opens its database.

There is one module for each revision beside this; the tables of one are never changed in place.
"""

from pathlib import Path

__all__ = ["FOLDER", "HEAD", "VERSIONS"]

FOLDER = Path(__file__).parent
HEAD = "0003"
VERSIONS = "service_version"
