"""What is known of the code that trained: commit, diff, imported modules, digests."""
