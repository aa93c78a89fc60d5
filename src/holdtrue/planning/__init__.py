"""Plans: frozen numbers from theorems, made before data."""
