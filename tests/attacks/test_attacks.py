"""The short form of every attack is withstood; the long form is ``python -m benchmarks.attacks``."""

import json
from pathlib import Path

import pytest

from benchmarks.attacks.page import page
from benchmarks.attacks.scoreboard import Attack, Attempt, attacks, score

ROOT = Path(__file__).parents[2]
ATTACKS = attacks()


@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_the_short_form_is_withstood(name):
    row = score(ATTACKS[name], short=True)
    assert row["tried"] >= 1
    assert row["failed"] == 0, "\n".join(row["faults"])


def test_the_committed_page_is_made_from_the_committed_results():
    results = json.loads((ROOT / "benchmarks/results/attacks.json").read_text())
    assert set(results["attacks"]) == set(ATTACKS)
    made = page(results)
    assert made == (ROOT / "benchmarks/results/robustness.md").read_text(), (
        "python -m benchmarks.attacks --page benchmarks/results/robustness.md"
    )


def test_faults_are_counted_and_the_folder_is_gone():
    seen = []

    def run(folder, tries, seed):
        seen.append(folder)
        yield from (Attempt(f"{seed}-{i}", "lost" if i % 2 else "") for i in range(tries))

    row = score(Attack("mine", "", run, long=9, short=4), short=True, seed=3)
    assert (row["tried"], row["failed"]) == (4, 2)
    assert row["faults"] == ["3-1: lost", "3-3: lost"]
    assert not seen[0].exists()


def test_the_page_shows_faults_and_where_each_row_was_made(tmp_path):
    about = {"date": "2026-01-02", "device": "a CPU", "versions": {"python": "3.11"}, "commit": "abc", "command": "run"}
    row = {"name": "mine", "what": "tried", "tried": 3, "failed": 1, "faults": ["x: lost"], "seconds": 1.5, "seed": 0}
    made = page(json.loads(json.dumps({"attacks": {"mine": row | {"about": about}}})))
    assert "| `mine` | 3 | 1 | tried |" in made
    assert "- `mine`: x: lost" in made
    assert "2026-01-02, a CPU" in made
