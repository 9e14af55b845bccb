"""Maintain existing sweeps: list and delete them, replay a member, evaluate kept weights again."""
