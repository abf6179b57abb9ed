"""The paper (Volk and Singer, arXiv 2111.07382) run again: its tables, figures and claims from raw data.

Not part of the package ``adacsl``, which it uses as anybody would. From the root of the repository::

    python -m paper table2 --quick
"""
