# Does: is these two lines.
# Must be: load_failed because it defines no ModelNew.
