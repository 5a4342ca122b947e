"""Train with JAX: batches arrive as arrays on the devices, split over all of them.

    python examples/train_jax.py run                                                       one process
    python examples/train_jax.py run --address localhost:9876 --processes 2 --process 0    the first of two
    python examples/train_jax.py run --address localhost:9876 --processes 2 --process 1    the second of two

On a cluster, `jax.distributed.initialize()` finds these numbers itself. The loader looks up rank and world size at the
first batch, and each process loads the samples that its devices hold. A run that was killed continues after the last
checkpoint, in mid-epoch.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.multihost_utils import sync_global_devices
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from recorded import Recorded
from shapes import CLASSES, open_shapes

import bushel
from bushel.transforms import Normalize, RandomHorizontalFlip, RandomResizedCrop

EPOCHS, BATCH, SIDE, RATE, EVERY = 2, 32, 32, 0.02, 5

Parameters = dict[str, jax.Array]


def loss_of(parameters: Parameters, image: jax.Array, label: jax.Array) -> jax.Array:
    """Return the cross entropy of a network with one hidden layer."""
    hidden = jax.nn.relu(image.reshape(len(image), -1) @ parameters["first"])
    scores = jax.nn.log_softmax(hidden @ parameters["second"])
    return -jnp.take_along_axis(scores, label[:, None], axis=1).mean()


def train(parameters: Parameters, image: jax.Array, label: jax.Array) -> tuple[Parameters, jax.Array]:
    """Do one step of gradient descent."""
    loss, gradients = jax.value_and_grad(loss_of)(parameters, image, label)
    return jax.tree.map(lambda value, slope: value - RATE * slope, parameters, gradients), loss


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description="A training loop in JAX.")
    parser.add_argument("folder", type=Path, help="folder of the dataset and the checkpoint")
    parser.add_argument("--address", help="of the first of several processes")
    parser.add_argument("--processes", type=int, help="their number")
    parser.add_argument("--process", type=int, help="the number of this one, from 0")
    parser.add_argument("--record", type=Path, help="folder for what each process is given; see bushel audit")
    parser.add_argument("--die-after", type=int, help="steps after which the process kills itself")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.address:
        jax.distributed.initialize(options.address, options.processes, options.process)

    mesh = Mesh(np.array(jax.devices()), "batch")
    loader = bushel.Loader(
        open_shapes(options.folder / "shapes"),
        BATCH // jax.process_count(),  # of each process
        shuffle=True,
        seed=0,
        drop_last=True,  # every batch has the shape that `train` is compiled for
        transforms={"image": [RandomResizedCrop(SIDE), RandomHorizontalFlip(), Normalize((0.5,) * 3, (0.25,) * 3)]},
        to="jax",
        device=NamedSharding(mesh, PartitionSpec("batch")),
    )
    keys = jax.random.split(jax.random.key(0))
    parameters = {
        "first": jax.random.normal(keys[0], (SIDE * SIDE * 3, 64)) / SIDE,
        "second": jax.random.normal(keys[1], (64, len(CLASSES))) / 8,
    }
    checkpoint, steps = options.folder / "checkpoint.npz", 0
    if checkpoint.exists():
        with np.load(checkpoint) as saved:
            parameters = {name: saved[name] for name in parameters}
            loader.load_state_dict(json.loads(str(saved["loader"])))
        print(f"going on in epoch {loader.epoch}")
    parameters = jax.device_put(parameters, NamedSharding(mesh, PartitionSpec()))  # the same on all devices
    batches, compiled = Recorded(loader, options.record), jax.jit(train)
    for _ in range(loader.epoch, EPOCHS):
        epoch, losses = loader.epoch, []
        for batch in batches:
            parameters, loss = compiled(parameters, batch["image"], batch["label"])
            losses.append(loss)
            steps += 1
            if steps % EVERY == 0:
                if jax.process_index() == 0:
                    partial = checkpoint.with_suffix(".partial.npz")
                    np.savez(partial, loader=json.dumps(loader.state_dict()), **parameters)
                    os.replace(partial, checkpoint)  # a kill leaves the old one or the new one
                sync_global_devices("checkpoint")
            if steps == options.die_after:
                os.kill(os.getpid(), signal.SIGKILL)
        print(f"epoch {epoch}: mean loss {np.mean(jax.device_get(losses)):.4f} over {len(losses)} steps")


if __name__ == "__main__":
    main()
