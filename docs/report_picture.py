"""Make the documentation's figures of a report, light and dark: the top of its page, or one card of it.

adacsl compare --save model --out runs/german-credit
python docs/report_picture.py runs/german-credit/report.html
adacsl explain model new.csv --html columns.html  # docs/guide/compare/command-line.md has model and data
python docs/report_picture.py columns.html columns "#view-0-worth"
adacsl compare wine --repeats 1 --methods net,net-bayes,gbm-bayes,adacsl --out runs/wine
python docs/report_picture.py runs/wine/report.html classes "#view-0-heat"
adacsl compare german-credit --methods logistic,always-positive --segments age --unit EUR --out runs/age
python docs/report_picture.py runs/age/report.html segments "#view-0-segments .grid"
adacsl monitor model summer.csv --labels outcomes.csv --id case --time-column when --html summer.html
python docs/report_picture.py summer.html monitor "#view-0-time"  # docs/guide/deploy/monitor.md has model and data
python docs/report_picture.py prices.html prices "#view-0-regret"  # as docs/guide/costs/uncertain-costs.md
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).resolve().parent / "_static"
WIDTH, LONGEST = 1200, 1000


def main() -> None:
    address = Path(sys.argv[1]).resolve().as_uri()
    name, card = sys.argv[2:4] if len(sys.argv) > 2 else ("report", None)
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for look in ("light", "dark"):
            page = browser.new_page(viewport={"width": WIDTH, "height": LONGEST}, color_scheme=look)
            page.goto(address)
            page.wait_for_selector("html[data-ready]", state="attached")
            if card is not None:
                page.evaluate("document.querySelectorAll('details.part').forEach((part) => (part.open = true))")
                page.locator(card).scroll_into_view_if_needed()
                if page.locator(f"{card} .plot").count():
                    page.wait_for_selector(f"{card} .plot[data-drawn='{look}']")
            taken = page.screenshot() if card is None else page.locator(card).screenshot()
            image = Image.open(io.BytesIO(taken)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
            image.save(FOLDER / f"{name}-{look}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
