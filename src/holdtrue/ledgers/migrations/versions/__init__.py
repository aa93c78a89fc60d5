"""One module a revision; the tables of one are never changed in place."""
