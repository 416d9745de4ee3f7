"""What is asked of a data set beside training on it; each is a command of `gristmill` as well."""
