"""GR00T's recorder: a writer for each stream of a sensor, with encoders of its own, and the episodes of its page."""

import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
from run_program import picture, show, show_files, stand_ins

CREATED = 1_700_000_000_000_000_000


class Sensor:
    """A sensor with one stream, which gives frames as those of the robot do."""

    def __init__(self, name: str, kind: str, data: list[Any]) -> None:
        self.name, self.spec, self.data = name, {name: kind}, data

    def init(self) -> None:
        """Do nothing: there is no robot."""

    def stream(self) -> Any:
        """Yield the frames."""
        for number, data in enumerate(self.data):
            created = np.int64(CREATED + number)
            yield {self.name: {"metadata": {"created": created, "topic": "t"}, "data": data}}


def run(folder: Path) -> None:
    """Record two sensors, and read what was written."""
    sys.path.insert(0, str(folder / "recorder"))
    sensors = ("brainco_hand", "extras", "livox_lidar", "orin_camera", "pico_xrt", "unitree_robot")
    stand_ins("zmq", "portal", "imageio", "imageio.v2", *sensors)
    import granular
    import stream2
    import visualize_episodes

    steps = [
        {
            **{"is_first": number == 1, "is_last": number == 4, "reward": np.float64(number == 3)},
            **{"reward_put_in": np.float64(number == 3), "reward_take_out": np.float64(0)},
            "pose": np.arange(number, dtype=np.float32),
        }
        for number in range(6)
    ]
    running, stopping = threading.Event(), threading.Event()
    stream2.worker(Sensor("extras", "tree", steps), running, stopping, "session", 0)
    running.set()
    frames = [picture(number) for number in range(6)]
    stream2.worker(Sensor("orin_camera_rgb", "rgb", frames), running, stopping, "session", 0)
    show_files("session")
    decoders = visualize_episodes.make_decoders()
    with granular.DatasetReader("session/extras", decoders) as reader:
        extras = visualize_episodes.scan_extras(reader)
        show("extras", extras)
        show("episodes", visualize_episodes.find_episodes(extras))
        show("datapoint", reader[2])
    with granular.DatasetReader("session/orin_camera_rgb", decoders) as reader:
        show("times", visualize_episodes.scan_rgb_timestamps(reader))
        show("frame", reader[3, ("orin_camera_rgb",)])
