"""Landing files on their way through object storage: from collectors to the machine that makes tables."""
