"""LeRobot's datasets, version 3: https://huggingface.co/docs/lerobot/lerobot-dataset-v3."""

from bushel.containers.lerobot.container import CONTAINER

__all__ = ["CONTAINER"]
