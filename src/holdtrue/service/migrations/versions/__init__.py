"""One module for each revision; the tables of one are never changed in place."""
