"""The ten commands of GulpIO2: each takes the words of a command line and returns the exit code (1: problems found)."""

from .ingest import COMMANDS
from .register import gulp2_register_adapter
from .sanity import gulp2_sanity_check

(
    gulp2_20bn_json_videos,
    gulp2_20bn_csv_webm,
    gulp2_20bn_csv_jpeg,
    gulp2_activitynet,
    gulp2_kinetics,
    gulp2_image_folder,
    gulp2_image_list,
    gulp2_video_folder,
) = COMMANDS

__all__ = ["gulp2_register_adapter", "gulp2_sanity_check"]
__all__ += [command.name for command in COMMANDS]
