import pytest
import trustme

from tools.peers.certificates import der


@pytest.fixture(scope="session")
def certificate():
    """The certificate of a CA, DER."""
    return der(trustme.CA())
