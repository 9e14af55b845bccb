"""Record and import the code that trains: commit, diff, imported modules, digests."""
