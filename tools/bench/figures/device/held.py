# The heap that is held.

import gc


def held():
    """Bytes of it, when what nobody refers to has been collected."""
    _overwrite_stack(30)
    gc.collect()
    return gc.mem_alloc()


def _overwrite_stack(depth):
    """What calls left there looks like references, and the collector keeps what they refer to."""
    return depth and _overwrite_stack(depth - 1)
