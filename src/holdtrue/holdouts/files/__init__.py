"""Files that eval tools write: their rows, whatever holds them, and one reader for each tool."""
