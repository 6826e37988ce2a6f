"""Ranges of days, of any length."""
from __future__ import annotations

from datetime import date, timedelta
from typing import Iterator, Union

Day = Union[date, str]
"""A calendar date; as text it is `YYYY-MM-DD`."""

MOST_DAYS = 31
"""How many days one request may ask for."""


def parts(first: Day, last: Day) -> Iterator[tuple[str, str]]:
    """The ranges of 31 days at most that make up a range. What is no range of days, or one that ends before it begins, stays as it is: the
    service refuses it."""
    start, end = _day(first), _day(last)
    if start and end:
        while start + timedelta(days=MOST_DAYS - 1) < end:
            yield start.isoformat(), (start + timedelta(days=MOST_DAYS - 1)).isoformat()
            start += timedelta(days=MOST_DAYS)
        first = start
    yield text_of(first), text_of(last)


def text_of(day: Day) -> str:
    """The date of a value that may also have an hour."""
    return day if isinstance(day, str) else date(day.year, day.month, day.day).isoformat()


def _day(day: Day) -> date | None:
    try:
        parsed = date.fromisoformat(text_of(day))
    except ValueError:
        return None
    return parsed if parsed.isoformat() == text_of(day) else None  # newer versions of Python read other forms, too
