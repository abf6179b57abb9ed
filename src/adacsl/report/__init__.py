"""Reports: one page engine with sections by subject, Markdown, and matplotlib displays."""
