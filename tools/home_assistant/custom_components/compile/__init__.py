"""For tests: the service compile.run makes Home Assistant's statistics of the five minutes from `start` on, and of the
hour that ends with them, as it does itself when they are over."""

from homeassistant.components.recorder import get_instance
from homeassistant.components.recorder.tasks import StatisticsTask
from homeassistant.util.dt import parse_datetime


async def async_setup(hass, config):
    async def run(call):
        get_instance(hass).queue_task(StatisticsTask(parse_datetime(call.data["start"]), fire_events=True))

    hass.services.async_register("compile", "run", run)
    return True
