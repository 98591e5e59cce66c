"""Faults: their kinds, schedules as text, and the injectors that apply them."""
