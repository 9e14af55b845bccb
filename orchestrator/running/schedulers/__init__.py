"""Who runs packs: this process, or processes of this machine; and which one is chosen."""
