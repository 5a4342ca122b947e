"""The names of `bushel.containers` and their modules, which the package reads, too."""

from bushel._index.builders import FieldBuilder as FieldBuilder
from bushel._index.builders import IndexBuilder as IndexBuilder
from bushel._index.shard import FileStamp as FileStamp
from bushel._index.shard import Keys as Keys
from bushel._index.shard import Shard as Shard
from bushel._index.table import FieldExtents as FieldExtents
from bushel._index.table import ShardIndex as ShardIndex
from bushel.containers.base import Container as Container
from bushel.containers.base import Layout as Layout
from bushel.containers.base import LayoutField as LayoutField
from bushel.containers.base import ReadOptions as ReadOptions
from bushel.containers.base import ShardWriter as ShardWriter
from bushel.containers.base import Stored as Stored
from bushel.containers.base import WriteOptions as WriteOptions
from bushel.containers.plain_table import PlainField as PlainField
from bushel.containers.plain_table import table_of as table_of
from bushel.containers.registry import candidates as candidates
from bushel.containers.registry import container_by_suffix as container_by_suffix
from bushel.containers.registry import container_for as container_for
from bushel.containers.registry import container_names as container_names
from bushel.containers.registry import containers_with_first_bytes as containers_with_first_bytes
from bushel.containers.registry import get_container as get_container
from bushel.containers.registry import get_writable as get_writable
from bushel.containers.registry import installed_candidates as installed_candidates
from bushel.containers.registry import is_data_file as is_data_file
from bushel.containers.registry import is_data_if_named as is_data_if_named
from bushel.containers.registry import is_forward_only as is_forward_only
from bushel.containers.registry import last_candidates as last_candidates
from bushel.containers.registry import needs_index as needs_index
from bushel.containers.registry import owners_of as owners_of
from bushel.containers.registry import register_container as register_container
from bushel.containers.registry import registered_here as registered_here
from bushel.containers.registry import with_episodes as with_episodes
from bushel.containers.registry import writable_containers as writable_containers
from bushel.containers.stored_column import ColumnLimits as ColumnLimits

__all__: list[str]
