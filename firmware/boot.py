# Runs before main.py. Frequent garbage collection avoids fragmentation, and growth of a heap that can grow.

import gc

gc.threshold(16 * 1024)
