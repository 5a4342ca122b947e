"""LeRobot's datasets, version 3: https://huggingface.co/docs/lerobot/lerobot-dataset-v3."""
