"""Who is asking: keys, tokens, sessions of the page, and what each may do and spend."""
