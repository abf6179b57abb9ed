"""``python -m paper`` run inside the test process, through its real entry point."""

import json
from types import SimpleNamespace

import pytest


@pytest.fixture(autouse=True)
def no_data(monkeypatch):
    monkeypatch.delenv("ADACSL_DATA", raising=False)


@pytest.fixture
def paper(capsys):
    """Run a command line and return its exit code, what it printed, and its JSON if it was asked for."""
    from paper.command import main

    def call(*words):
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        document = json.loads(out) if "--json" in words and out else None
        return SimpleNamespace(code=code, out=out, err=err, json=document)

    return call


@pytest.fixture
def refused(paper):
    """Run a command line that must fail with one line on stderr and nothing on stdout; return that line."""

    def call(*words, code=2):
        said = paper(*words)
        assert said.code == code, said
        assert said.out == ""
        lines = said.err.splitlines()
        assert len(lines) == 1, said.err
        assert lines[0].startswith("error: ")
        assert "Traceback" not in said.err
        return lines[0]

    return call
