"""Rows whose audio cannot be used: what is done about them, and how they are remembered.

`policy` holds the options; `tracker` is what an iterator keeps; `quarantine` is the file that
passes rows on to later runs, and `exclude` reads it; `unusable` notices where no row is left.
"""
