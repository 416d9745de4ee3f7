"""`gristmill pack`: recordings in folders or tars, into Arrow shards.

`source.py` holds what `folder.py` and `tar.py` find, `columns.py` and `metadata.py` what stands
beside the audio; `shards.py` reads shards that exist, `convert.py` makes FLAC of what is not
decoded; `plan.py` says which recordings go to which shard, `reader.py` reads and checks them,
`writer.py` writes one shard, `state.py` keeps what is done, `run.py` does all.
"""
