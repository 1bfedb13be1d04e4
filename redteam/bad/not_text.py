# Does: holds bytes that are no UTF-8.
# Must be: load_failed because it cannot be read.
name = 'ÿþ€'
