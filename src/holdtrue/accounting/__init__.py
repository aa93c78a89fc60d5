"""What releases cost: curves of single events, and how costs add up."""
