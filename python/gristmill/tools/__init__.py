"""Tools for data sets and machines; each is a function and a command of `gristmill`.

`inspect`, `index`, `scan`, `bench`, `doctor` and `demo` are the commands, and `quality` measures
shuffles. They share `headers` and `shards` (what the headers of shards say), `sample` (of the
audio), `crops` (the job that is measured) and `page` (printing).
"""
