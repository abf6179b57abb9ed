"""Make the documentation's pictures of a report: the top of its page, light and dark.

adacsl compare --out runs/breast-cancer
python docs/report_picture.py runs/breast-cancer/report.html
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
WIDTH, LONGEST = 1200, 1180


def main() -> None:
    address = Path(sys.argv[1]).resolve().as_uri()
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for look in ("light", "dark"):
            page = browser.new_page(viewport={"width": WIDTH, "height": LONGEST}, color_scheme=look)
            page.goto(address)
            page.wait_for_selector("html[data-ready]", state="attached")
            picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(128, dither=Image.Dither.NONE)
            picture.save(FOLDER / f"report-{look}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
