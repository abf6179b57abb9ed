"""``python -m paper`` run inside the test process, through its real entry point."""

import pytest


@pytest.fixture(autouse=True)
def no_data(monkeypatch):
    monkeypatch.delenv("ADACSL_DATA", raising=False)


@pytest.fixture
def paper(called):
    """Run a command line."""
    from paper.command import main

    return called(main)


@pytest.fixture
def refused(paper, refusal):
    """Run a command line that must be refused; return the one line that says why."""
    return refusal(paper)
