"""A whole training run in a minute: `gristmill demo`.

`sound` draws recordings, `encode` turns them into files, `data` writes those to shards, `model` is
a small classifier in JAX, `training` trains it, stops and resumes, and `report` is the outcome.
Only `report` can be imported without JAX, pyarrow and soundfile.
"""
