"""Words by which a search text names a time range or a thing, in English and Chinese; replaceable."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

__all__ = ["CHINESE", "ENGLISH", "SearchVocabulary"]


@dataclass(frozen=True)
class SearchVocabulary:
    """Patterns of one language; add two with `+`.

    Attributes:
        times: regular expressions of time ranges (`last 7 days`).
        entities: regular expressions of things with a name or number (`order A123`).
        fillers: words that name nothing (`all`, `anyone`), on their own and at the end of what looks like a thing (`user ALL`).
    """

    times: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    fillers: tuple[str, ...] = ()

    def __add__(self, other: SearchVocabulary) -> SearchVocabulary:
        return SearchVocabulary(self.times + other.times, self.entities + other.entities, self.fillers + other.fillers)

    @cached_property
    def _time(self) -> re.Pattern[str]:
        return _any_of(self.times)

    @cached_property
    def _entity(self) -> re.Pattern[str]:
        return _any_of(self.entities)

    def names_time(self, text: str) -> bool:
        """Tell whether a text names a time range."""
        return self._time.search(text) is not None

    def names_entity(self, text: str) -> bool:
        """Tell whether a text names a thing by its name or number."""
        return any(not self._is_filler(match.group().strip().casefold()) for match in self._entity.finditer(text))

    def _is_filler(self, found: str) -> bool:
        words = _WORD.findall(found)
        return found in self.fillers or (bool(words) and words[-1] in self.fillers)


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    joined = "|".join(f"(?:{pattern})" for pattern in patterns)
    return re.compile(joined or r"(?!)", re.IGNORECASE)


_WORD: Final = re.compile(r"\w+")
_MONTHS: Final = "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
_DIGITAL: Final = (
    r"(?<!\d)(?:19|20)\d{2}[-/.年](?:0?[1-9]|1[0-2])(?:[-/.月](?:0?[1-9]|[12]\d|3[01])日?|月)?(?!\d)",
    r"(?<!\d)(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?!\d)",
    r"(?<!\d)(?:19|20)\d{2}-?[QW]\d{1,2}(?!\d)",
)
_NUMBERED: Final = (
    r"(?<![\w.-])[a-z]{1,6}[-_#]?\d{3,}\w*",  # A20260130001, ORD-123, SKU_5001
    r"(?<![\w./-])\d{5,}(?![\w./-])",  # long numbers
    r"(?<![a-z0-9_])#\d+",
    r"[\w.+-]+@[\w-]+\.[\w.-]+",
    r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b",
    r"\b\d{1,3}(?:\.\d{1,3}){3}\b",
)

ENGLISH: Final = SearchVocabulary(
    times=(
        *_DIGITAL,
        r"\b(?:today|yesterday|tonight|this morning)\b",
        r"\b(?:this|last|past|previous|current) (?:hour|day|week|weekend|month|quarter|monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b",
        r"\b(?:last|past|previous) (?:\d{1,3}|two|three|four|five|six|seven|ten|few) (?:minute|hour|day|week|month)s?\b",
        rf"\b(?:{_MONTHS})\.? (?:\d{{1,2}}(?:st|nd|rd|th)?,? )?(?:19|20)\d{{2}}\b",
        rf"\b\d{{1,2}} (?:{_MONTHS})\.? (?:19|20)\d{{2}}\b",
        r"\bq[1-4] (?:19|20)\d{2}\b",
    ),
    entities=(
        *_NUMBERED,
        r"\b(?:customer|user|account|tenant|supplier|product|sku|order|ticket|invoice)\s+(?-i:[A-Z0-9])[\w-]+",
        r"\"[^\"*%]{2,}\"",
        r"\b(?:id|number|named|called)[ :=]+[\"']?\w{2,}|\bno[.:#=]+ ?[\"']?\w{2,}",
    ),
    fillers=(
        *(
            "all",
            "any",
            "every",
            "each",
            "whole",
            "everything",
            "anything",
            "everyone",
            "anyone",
            "everybody",
            "anybody",
        ),
        '"*"',
    ),
)
"""English words, ISO dates, numbers of things, e-mail addresses and quoted names."""

CHINESE: Final = SearchVocabulary(
    times=(
        *_DIGITAL,
        r"今天|今日|昨天|昨日|前天|今早|今晚|昨晚|本日|当天|当日",
        r"(?:本|这|上|上个|这个|最近一|近一)(?:周|星期|月|季度|小时)",
        r"(?:最近|近|过去|前|之前)\s*(?:\d{1,3}|[一二两三四五六七八九十]{1,3}|几)\s*(?:个)?(?:分钟|小时|天|日|周|星期|月)",
        r"(?:19|20)\d{2}\s*年\s*(?:第?[一二三四1-4]季度|[上下]半年)",
        r"(?<!\d)(?:1[0-2]|[1-9])月(?:[12]\d|3[01]|[1-9])[日号]",
    ),
    entities=(
        *_NUMBERED,
        r"[「『《“][^」』》”*%]{2,}[」』》”]",
        r"(?:订单号?|单号|编号|工单号?|用户名?|客户|账号|商品|名为|叫做|姓名)[为是：:\s]+(?!全部|所有|任意)[\w一-鿿]{2,}",
    ),
    fillers=("全部", "所有", "任意", "“全部”", "“所有”", "「全部」", "「所有」"),
)
"""Chinese words, dates, numbers of things and quoted names."""
