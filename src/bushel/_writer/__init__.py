"""Writing datasets shard by shard, safely against kills."""
