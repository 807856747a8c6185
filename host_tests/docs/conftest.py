import pytest

from dev.pico_w.certificates import Authority


@pytest.fixture(scope="session")
def certificate():
    """The certificate of an authority, DER."""
    return Authority("an authority").der
