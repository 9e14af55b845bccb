"""Problems of a file: what is wrong, where, and what is allowed."""
