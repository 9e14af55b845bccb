"""The schedulers without Ray: this process, or local worker processes; and the choice of a scheduler."""
