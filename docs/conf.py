"""Configuration of the documentation: sphinx-build -W -b html docs docs/_build."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

os.environ.setdefault("KERAS_BACKEND", "torch")  # autodoc imports Keras, which would look for TensorFlow
sys.path.insert(0, str(Path(__file__).parent))

import api_reference

import adacsl

project = "adacsl"
author = "the adacsl developers"
copyright = "2026, the adacsl developers"
version = release = adacsl.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
myst_enable_extensions = ["dollarmath", "colon_fence", "attrs_block", "attrs_inline"]
myst_heading_anchors = 3

autosummary_context = {"public": api_reference.pages()}  # what the pages of classes list
autosummary_filename_map = {  # or one of them is lost where file names ignore case
    "adacsl.torch.resnet.normalise": "adacsl.torch.resnet.normalise_function"
}
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_inherit_docstrings = True
maximum_signature_line_length = 80  # longer signatures: one parameter per line
smartquotes_action = "De"  # quotes of code stay straight
napoleon_google_docstring = False
napoleon_use_param = False  # "fp, fn : float" stays one entry
napoleon_custom_sections = [("Attributes", "params_style")]  # a list, not a heading for each
napoleon_use_rtype = False

copybutton_exclude = ".linenos, .gp, .go"  # prompts and what a command prints are not copied
copybutton_selector = "div.highlight-python pre, div.highlight-bash pre, div.highlight-console pre"

html_theme = "furo"
html_title = f"adacsl {release}"
html_static_path = ["_static"]
html_css_files = ["adacsl.css"]
html_show_sourcelink = False
html_math_renderer = "mathml"


# Formulas become MathML when the pages are built: every current browser shows it, with no script and no network.


def mathml(node: nodes.Element, *, block: bool) -> str:
    tex = re.sub(r"\\[bB]igg?(?![a-z])", "", node.astext())  # MathML stretches brackets by itself
    tex = re.sub(r"\\(log|exp)(?![a-z])", r"\\,\\\1\\,", tex)
    tex = re.sub(r"\\overline\{(\w)\}_(\w)", r"\\overline{\1_\2}", tex)  # or the index lands under the letter
    tex = tex.replace("'", r"^\prime ")
    return str(tex2mathml(tex, as_block=block))


def inline_math(writer: Any, node: nodes.math) -> None:
    writer.body.append(mathml(node, block=False))
    raise nodes.SkipNode


def block_math(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math-block">{mathml(node, block=True)}</div>')
    raise nodes.SkipNode


# napoleon reads "a: b" in the first line of a property as "type: text"; here a colon is a colon


def hide_colons(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    if what == "property":
        lines[:] = [line.replace(":", "\0") for line in lines]


def show_colons(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    if what == "property":
        lines[:] = [line.replace("\0", ":") for line in lines]


# generated tables beside the benchmarks are files to download here, and pages in the repository


def link_results(app: Any, page: str, content: list[str]) -> None:
    content[0] = re.sub(r"\]\(((?:\.\./)+benchmarks/results/)", r"](path:\1", content[0])


# what readers search for, and the page that answers it: entries of the index, which the site's search ranks first

SEARCH_WORDS = {
    "guide/diagnose/checks": ("data leakage", "target leakage", "leakage", "duplicates"),
    "guide/compare/statistics": ("statistically significant", "significance", "confidence interval", "p-value"),
    "guide/constraints/reject-option": ("abstain", "abstention", "reject option"),
    "guide/constraints/capacity": ("alerts per day", "capacity constraint"),
    "guide/constraints/prior-shift": ("prior shift", "class prior"),
    "guide/deploy/monitor": ("drift", "data drift", "monitoring"),
    "guide/thresholds/threshold": ("optimal threshold", "decision threshold", "threshold tuning"),
    "guide/thresholds/probabilities": ("calibration",),
    "guide/train/methods": ("class_weight", "class weights", "scale_pos_weight", "sample_weight"),
    "integrations/sklearn": ("hyperparameter", "hyperparameters", "hyperparameter search", "gridsearchcv"),
    "which-tool": ("imbalanced", "imbalance", "class imbalance"),
    "glossary": ("glossary",),
    "cite": ("cite", "citation", "bibtex"),
}


def index_words(app: Any, page: str, content: list[str]) -> None:
    if words := SEARCH_WORDS.get(page):
        entries = ", ".join(f"! {word}" for word in words)
        content[0] = re.sub(r"(?m)^(# .+)$", rf"\1\n\n```{{index}} {entries}\n```", content[0], count=1)


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", link_results)
    app.connect("source-read", index_words)
    app.connect("autodoc-process-docstring", hide_colons, priority=400)
    app.connect("autodoc-process-docstring", show_colons, priority=600)
    app.add_html_math_renderer("mathml", (inline_math, None), (block_math, None))
    return {"parallel_read_safe": True}
