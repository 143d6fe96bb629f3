"""The named moments at which a process is killed, and what must be true after recovery."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """One moment.

    Attributes:
        name: short name, used on the command line.
        injected: what is done to the process, in words.
        effects: how often the effect is in the world after recovery.
        state: state of the call after recovery; None: the ledger never heard of it.
        basis: why it counts as a success; None: it is none.
        attempts: dispatches over both processes.
        returned: whether the first process got an envelope before it died: that is an acknowledged record.
    """

    name: str
    injected: str
    effects: int
    state: str | None
    basis: str | None = None
    attempts: int = 1
    returned: bool = False


WINDOWS = (
    Window("before-intent", "killed before the intent commit", 0, None),
    Window("intent-not-sent", "killed after the intent was committed, before the tool is entered", 1, "SUCCEEDED", "returned", 2),
    Window("sent-no-reply", "killed in the tool, after the effect", 1, "SUCCEEDED", "confirmed"),
    Window("reply-in-memory", "killed before the outcome commit", 1, "SUCCEEDED", "confirmed"),
    Window("outcome-not-returned", "killed after the outcome was committed, before it is returned", 1, "SUCCEEDED", "returned"),
    Window("confirming-applied", "reply lost after the effect; killed during the confirmation", 1, "SUCCEEDED", "confirmed"),
    Window("confirming-lost", "request lost; killed during the confirmation", 1, "SUCCEEDED", "returned", 2),
    Window("before-next-intent", "request lost and confirmed as not applied; killed before the next intent", 1, "SUCCEEDED", "returned", 2),
    Window("intent-unknown", "intent committed but its answer lost; killed after the refusal was returned", 0, "REJECTED", returned=True, attempts=0),
    Window("intent-unknown-down", "the same, and the ledger stays away: killed with the refusal in the spool", 0, "REJECTED", returned=True, attempts=0),
    Window("down-before-sending", "ledger away before the intent; killed with the refusal in the spool", 0, "REJECTED", returned=True, attempts=0),
    Window("outcome-unknown", "outcome committed but its answer lost; killed after the result was returned", 1, "SUCCEEDED", "returned", returned=True),
    Window("down-after-tool", "ledger away after the tool ran; killed with the outcome in the spool", 1, "SUCCEEDED", "returned", returned=True),
    Window("second-try-no-reply", "request lost, sent again with a licence; killed in the tool after that effect", 1, "SUCCEEDED", "confirmed", 2),
)  # fmt: skip
BY_NAME = {window.name: window for window in WINDOWS}
