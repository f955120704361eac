"""Logins through client libraries give the same credentials as those of the original."""

from __future__ import annotations

import json

import login_cases
import pytest

pytest.importorskip("kubernetes")
pytest.importorskip("pykube")

RECORDED = json.loads(login_cases.ANSWERS.read_text())


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, dict[str, object]]]:
    return login_cases.evaluate()


@pytest.mark.parametrize("login", login_cases.LOGINS)
@pytest.mark.parametrize("case", RECORDED)
def test_credentials_are_the_same(
    case: str, login: str, results: dict[str, dict[str, dict[str, object]]]
) -> None:
    expected = dict(RECORDED[case][login])
    if (case, login) == ("proxy", "login_via_client"):
        # The original ignores the proxy of the client library.
        expected["proxy_url"] = "http://proxy:3128"
    assert results[case][login] == expected
