# When this firmware was built, in seconds since 1970: the clock of a board is never before it. `inflight board` writes
# the day of the deployment here, a frozen firmware has the day of the release.

TIME = 1_795_305_600
