"""What every snippet of README, documentation and examples does that adapts a loss or decides by costs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]
ADAPTING = [str(p.relative_to(ROOT)) for p in SOURCES if re.search(r"loss\.adapt\((?!torch\.tensor)", p.read_text())]
PAGES = ["pytorch", "skorch", "transformers", "keras", "xgboost", "lightgbm", "catboost"]
EXAMPLES = [
    "plain_pytorch", "lightning_module", "skorch_net", "transformers_trainer", "keras_model", "xgboost_callback",
    "lightgbm_callback", "catboost_callback",
]  # fmt: skip


@pytest.mark.parametrize("path", ADAPTING)
def test_validation_is_measured_in_evaluation_mode_without_gradients(path):
    text = (ROOT / path).read_text()
    for call in ("net.eval()", "torch.no_grad()", "net.train()"):
        assert call in text, f"{path} adapts without {call}"


def test_there_are_snippets():
    assert {"README.md", "examples/plain_pytorch.py", "docs/integrations/pytorch.md"} <= set(ADAPTING)


@pytest.mark.parametrize(
    "path",
    [
        *(f"docs/integrations/{page}.md" for page in PAGES), "docs/integrations/lightning.md",
        "docs/guide/train/multiclass.md",
        *(f"examples/{name}.py" for name in EXAMPLES),
    ],
)  # fmt: skip
def test_every_integration_shows_how_to_decide(path):
    assert re.search(r"(loss|cost|criterion_)\.decide\(", (ROOT / path).read_text())
