"""What the theorems promise: accuracy of noise and samples, and how far an answer may be from the population."""
