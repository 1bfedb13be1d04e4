# Does: sleeps for ever when it is loaded.
# Must be: timed_out because it ran past its limit.
import time

while True:
    time.sleep(3600)
