"""Quiet windows against the calendar: midnight, weekdays, cron, zones and the days when clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fcguard.constraints import Between, Constraint, Cron, Daily, QuietWindow
from fcguard.errors import ConfigurationError
from fcguard.model.failure import FailureClass, class_of


def at(text: str, tz: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(tz)).timestamp()


def until(window: QuietWindow, text: str, tz: str = "UTC") -> str | None:
    end = window.quiet_until(at(text, tz))
    return None if end is None else datetime.fromtimestamp(end, ZoneInfo(tz)).strftime("%Y-%m-%dT%H:%M")


@pytest.mark.parametrize(
    ("moment", "end"),
    [
        ("2026-01-30T21:59:59", None),
        ("2026-01-30T22:00:00", "2026-01-31T06:00"),
        ("2026-01-31T03:00:00", "2026-01-31T06:00"),
        ("2026-01-31T05:59:59", "2026-01-31T06:00"),
        ("2026-01-31T06:00:00", None),
        ("2026-01-31T23:00:00", None),  # a Saturday
        ("2026-02-01T03:00:00", None),
        ("2026-02-02T03:00:00", None),  # Monday early: Sunday's window does not exist
    ],
)
def test_over_midnight_on_weekdays(moment: str, end: str | None) -> None:
    window = QuietWindow(Daily("22:00", "06:00", days="mon-fri"), tz="Asia/Shanghai")
    assert until(window, moment, "Asia/Shanghai") == end


def test_within_a_day_and_whole_days() -> None:
    lunch = QuietWindow(Daily("12:00", "13:30"))
    assert [until(lunch, f"2026-01-30T{time}") for time in ("11:59", "12:00", "13:29", "13:30")] == [
        None,
        "2026-01-30T13:30",
        "2026-01-30T13:30",
        None,
    ]
    weekend = QuietWindow(Daily("00:00", "24:00", days="sat,sun"))
    assert until(weekend, "2026-01-31T10:00") == "2026-02-02T00:00", "Saturday and Sunday join"
    assert until(weekend, "2026-02-02T00:00") is None


@pytest.mark.parametrize(
    ("expression", "moment", "end"),
    [
        ("0 2 * * 6", "2026-01-31T02:00", "2026-01-31T04:00"),
        ("0 2 * * 6", "2026-01-31T03:59", "2026-01-31T04:00"),
        ("0 2 * * 6", "2026-01-31T04:00", None),
        ("0 2 * * 6", "2026-01-30T02:30", None),
        ("0 23 * * 7", "2026-02-02T00:30", "2026-02-02T01:00"),
        ("30 1 1 * *", "2026-02-01T02:00", "2026-02-01T03:30"),
        ("0 0 1 * mon", "2026-02-02T01:00", "2026-02-02T02:00"),  # either day or weekday
        ("0 0 1 * mon", "2026-02-03T01:00", None),
        ("0 0 */2 * mon", "2026-02-02T01:00", None),  # a star: both
        ("*/30 9-17 * jan-mar mon-fri", "2026-02-02T09:10", "2026-02-02T11:00"),  # windows that overlap join
        ("0 12 * 2 *", "2026-03-01T12:30", None),
        ("0,15 8 * FEB *", "2026-02-01T08:20", "2026-02-01T10:15"),
        ("0 8/8 * * *", "2026-02-01T16:20", "2026-02-01T18:00"),
    ],
)
def test_cron(expression: str, moment: str, end: str | None) -> None:
    window = QuietWindow(Cron(expression, minutes=120))
    got = until(window, moment)
    assert got == end if expression != "*/30 9-17 * jan-mar mon-fri" else got == "2026-02-02T19:30"


def test_the_nights_when_clocks_change() -> None:
    night = QuietWindow(Daily("01:00", "04:00"), tz="Europe/Berlin")
    for day, hours in (("2026-03-29", 2), ("2026-10-25", 4), ("2026-06-01", 3)):
        begin = at(f"{day}T01:00", "Europe/Berlin")
        assert night.quiet_until(begin) == begin + hours * 3600
        assert night.quiet_until(begin - 1) is None


def test_between() -> None:
    window = QuietWindow(Between(datetime(2026, 1, 30, 10, 0, 30, tzinfo=UTC), datetime(2026, 1, 30, 11, tzinfo=UTC)))
    assert [until(window, f"2026-01-30T{time}") for time in ("10:00:29", "10:00:30", "10:59:59", "11:00:00")] == [
        None,
        "2026-01-30T11:00",
        "2026-01-30T11:00",
        None,
    ]


def test_refuses_writes_until_the_end_and_lets_reads_pass(make_call: Any) -> None:
    wall = [at("2026-01-30T22:30")]
    window = QuietWindow(Daily("22:00", "23:00"), wall=lambda: wall[0])
    refused = window.admit(make_call(effect="write"), 0)
    assert (refused.code, refused.retry_after) == ("QUIET_WINDOW", 1800) and "23:00" in refused.message
    assert class_of(refused.code) is FailureClass.ENVIRONMENT
    assert window.admit(make_call(effect="read"), 0) is None
    wall[0] += 1799
    assert window.admit(make_call(effect="write"), 0).retry_after == 1
    wall[0] += 1
    assert window.admit(make_call(effect="write"), 0) is None
    window.settle(make_call(), None, 0)
    everything = QuietWindow(Daily("22:00", "24:00"), effects=["read", "write"], wall=lambda: wall[0])
    assert everything.admit(make_call(effect="read"), 0) is not None
    assert everything.admit(make_call(effect="destructive"), 0) is None
    assert isinstance(window, Constraint)


def test_what_was_looked_up_is_not_kept_too_long(make_call: Any) -> None:
    start = datetime(2026, 1, 30, 10, 0, 30, tzinfo=UTC)
    wall = [start.timestamp() - 20]
    window = QuietWindow(Between(start, start + timedelta(seconds=5)), Daily("10:02", "10:03"), wall=lambda: wall[0])
    seen = []
    for _ in range(200):
        seen.append(window.admit(make_call(effect="write"), 0) is not None)
        assert seen[-1] == (window.quiet_until(wall[0]) is not None)
        wall[0] += 1
    assert (seen.count(True), seen[20], seen[25]) == (65, True, False)
    wall[0] = start.timestamp()
    assert window.admit(make_call(effect="write"), 0) is not None, "a clock that was set back"


@settings(max_examples=150, deadline=None)
@given(
    start=st.integers(0, 1439),
    end=st.integers(0, 1439),
    tz=st.sampled_from(["UTC", "Europe/Berlin", "Asia/Shanghai", "America/New_York", "Australia/Lord_Howe"]),
    moment=st.integers(int(at("2026-01-01T00:00")), int(at("2026-12-31T00:00"))),
)
def test_daily_is_what_the_wall_clock_shows(start: int, end: int, tz: str, moment: int) -> None:
    if start == end:
        return
    window = QuietWindow(Daily(f"{start // 60:02}:{start % 60:02}", f"{end // 60:02}:{end % 60:02}"), tz=tz)
    local = datetime.fromtimestamp(moment, ZoneInfo(tz))
    near_change = local.utcoffset() != (datetime.fromtimestamp(moment + 90_000, ZoneInfo(tz))).utcoffset() or (
        local.utcoffset() != datetime.fromtimestamp(moment - 90_000, ZoneInfo(tz)).utcoffset()
    )
    minute = local.hour * 60 + local.minute
    expected = start <= minute < end if start < end else minute >= start or minute < end
    got = window.quiet_until(moment)
    if not near_change:
        assert (got is not None) == expected
    if got is not None:
        assert moment < got <= moment + 26 * 3600 and window.quiet_until(got) is None


@settings(max_examples=100, deadline=None)
@given(
    minute=st.integers(0, 59), hour=st.integers(0, 23), length=st.integers(1, 3000), offset=st.integers(0, 30 * 1440)
)
def test_cron_once_a_day_is_daily(minute: int, hour: int, length: int, offset: int) -> None:
    cron = Cron(f"{minute} {hour} * * *", minutes=length)
    moment = at("2026-01-10T00:00") + offset * 60
    expected = (offset - hour * 60 - minute) % 1440 < length
    got = cron.active_until(moment, UTC)
    assert (got is not None) == expected
    if got is not None:
        assert moment < got <= moment + length * 60


@pytest.mark.parametrize(
    "wrong",
    [
        QuietWindow,
        lambda: QuietWindow("22:00-06:00"),
        lambda: QuietWindow(Daily("1:00", "2:00"), tz="Mars/Olympus"),
        lambda: QuietWindow(Daily("1:00", "2:00"), tz="../etc/passwd"),
        lambda: QuietWindow(Daily("1:00", "2:00"), effects=["nothing"]),
        lambda: Daily("22:00", "22:00"),
        lambda: Daily("24:00", "01:00"),
        lambda: Daily("25:00", "01:00"),
        lambda: Daily("9", "10"),
        lambda: Daily("1:00", "2:00", days="fri-mon"),
        lambda: Daily("1:00", "2:00", days=""),
        lambda: Cron("* * * *", 5),
        lambda: Cron("60 * * * *", 5),
        lambda: Cron("* * 0 * *", 5),
        lambda: Cron("*/0 * * * *", 5),
        lambda: Cron("*/ * * * *", 5),
        lambda: Cron("5-1 * * * *", 5),
        lambda: Cron("²  * * * *", 5),
        lambda: Cron("@daily", 5),
        lambda: Cron("* * L * *", 5),
        lambda: Cron("* * * * *", 0),
        lambda: Cron("* * * * *", 10_081),
        lambda: Between(datetime(2026, 1, 1), datetime(2026, 1, 2)),
        lambda: Between(datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_what_is_not_understood_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        wrong()
