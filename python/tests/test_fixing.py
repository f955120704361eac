"""Handlers and settings changed after the startup have no effect and are reported."""

from __future__ import annotations

import pytest

import kopf
from behaviour import Stage, until
from kopf._front.bridge import fixing


def test_changed_settings_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    settings = kopf.OperatorSettings()
    known = fixing.snapshot(settings)
    settings.posting.enabled = False
    settings.execution.default_backoff = 1
    assert fixing.warn_of_changes(settings, known) == known
    assert not caplog.messages
    settings.watching.server_timeout = 5
    settings.persistence.finalizer = "other"
    known = fixing.warn_of_changes(settings, known)
    assert caplog.messages == [
        "Settings are changed after the startup, which has no effect: "
        "watching.server_timeout, persistence.finalizer."
    ]
    fixing.warn_of_changes(settings, known)
    assert len(caplog.messages) == 1


def test_late_handlers_are_reported(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    calls = []

    @kopf.on.startup()
    async def startup(**_: object) -> None:
        @kopf.on.create("kopfexamples", id="during")
        async def during(**_: object) -> None:
            calls.append("during")

            @kopf.on.create("kopfexamples", id="late")
            async def late(**_: object) -> None:
                calls.append("late")

    with stage.operator():
        stage.handled(stage.create())
        until(lambda: calls, "the call")
    text = "Handler 'late' is registered after the startup of the operator: it has no effect."
    assert text in caplog.messages
    assert calls == ["during"]
    kopf.on.create("kopfexamples", id="between")(lambda **_: None)
    assert "between" not in caplog.text
