"""Faults: their kinds, schedules in text, and the injectors that apply them."""
