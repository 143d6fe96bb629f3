"""The report as JUnit XML: one test case a gate check and one a task, for continuous integration."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import Any, Final

__all__ = ["render_junit"]

_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(document: dict[str, Any]) -> str:
    """Render the document as JUnit XML.

    A failed check is a failure, an undecided one an error, one without a limit is skipped. A task fails if not every
    trial passed; it holds no time, so the same input gives the same bytes.
    """
    root = ET.Element("testsuites", name=_clean(document["title"]))
    gate = ET.SubElement(root, "testsuite", name="gate")
    for check in document["gate"]["checks"]:
        case = ET.SubElement(gate, "testcase", classname="gate", name=f"{check['priority']} {check['title']}")
        text = f"{check['value_text']}; limit {check['limit']}. {check['reason']}"
        if check["decision"] == "fail":
            _child(case, "failure", text, f"{text}\nfirst fix: {check['fix']}")
        elif check["decision"] == "inconclusive":
            _child(case, "error", text, text)
        elif check["decision"] == "not_checked":
            _child(case, "skipped", text, "")
    if not document["gate"]["checks"]:
        case = ET.SubElement(gate, "testcase", classname="gate", name="verdict")
        _child(case, "error", document["gate"]["message"], "")
    tasks = ET.SubElement(root, "testsuite", name="tasks")
    for task in document["tasks"]:
        name = f"{task['slice']}.{task['task_id']}" if task["slice"] else task["task_id"]
        case = ET.SubElement(tasks, "testcase", classname="tasks", name=_clean(name))
        if task["passed"] < task["sessions"]:
            text = f"{task['passed']} of {task['sessions']} trials passed; {task['misfires']} misfires"
            _child(case, "failure", text, "")
    for suite in root:
        suite.set("tests", str(len(suite)))
        for kind, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            suite.set(attribute, str(sum(1 for case in suite if case.find(kind) is not None)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _child(case: ET.Element, kind: str, message: str, text: str) -> None:
    child = ET.SubElement(case, kind, message=_clean(message))
    child.text = _clean(text) or None


def _clean(text: str) -> str:
    """Drop the characters that XML cannot hold."""
    return _NOT_XML.sub("\ufffd", text)
