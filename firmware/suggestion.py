# What somebody may have meant. Loaded for an error.


def unknown(what, name, known):
    """The text of an error: `what`, with that name, is none of `known`, a sequence of texts; and which of them is most
    like it."""
    word = str(name).lower()
    most = 0.49  # letters moved within a short word are half of it
    found = None
    for other in known:
        score = (_alike(word, other) + _alike(_pairs(word), _pairs(other))) / 2
        if score > most:
            most = score
            found = other
    advice = 'did you mean "%s"?' % found if found else "remove it, or use one of " + ", ".join(sorted(known))
    return '%s "%s": %s' % (what, name, advice)


def _pairs(word):
    return [word[i : i + 2] for i in range(len(word) - 1)]


def _alike(one, other):
    # From 0 to 1: how much of two sequences is in both.
    rest = list(other)
    for item in one:
        if item in rest:
            rest.remove(item)
    return 2 * (len(other) - len(rest)) / (len(one) + len(other) or 1)
