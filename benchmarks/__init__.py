"""Side by side with the peers: one run, the same arrays, ratios."""
