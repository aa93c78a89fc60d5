"""The page: what the service does, for people. HTML made here, htmx for what moves, Vega-Lite for plots, no other origin."""
