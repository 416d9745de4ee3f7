"""Rows whose audio cannot be used: what is done about them, and what is remembered of them.

`tracker` is what an iterator keeps; `quarantine` is the file that passes rows on to later runs, and
`exclude` reads it; `unusable` notices where nothing is left.
"""
