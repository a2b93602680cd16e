from tests.support.live import live as live  # the fixture
