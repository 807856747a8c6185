# Runs before main.py. Collecting early and often keeps the heap in one piece, and small where it
# could grow.

import gc

gc.threshold(16 * 1024)
