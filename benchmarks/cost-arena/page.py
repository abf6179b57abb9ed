def page_of(*a): return ""
