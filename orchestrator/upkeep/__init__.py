"""Looks after existing sweeps: lists and deletes them, trains a member again, evaluates kept weights again."""
