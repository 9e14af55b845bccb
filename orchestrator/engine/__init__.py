"""The package `trainers/` behind the interface of a trainer.

engine.py          the trainer `Engine`: builds, describes and trains packs
environment.py     what a record says about the machine and its libraries
engine_streams.py  which random streams two members share
initial_shares.py  averages that are still mostly initial weights
heap.py            freed memory stays in the process
"""
