"""Train with JAX: batches arrive as arrays on the devices, split over all of them.

python examples/train_jax.py run
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from shapes import CLASSES, open_shapes

import bushel
from bushel.transforms import Normalize, RandomHorizontalFlip, RandomResizedCrop

EPOCHS, BATCH, SIDE, RATE = 2, 32, 32, 0.02

Parameters = dict[str, jax.Array]


def loss_of(parameters: Parameters, image: jax.Array, label: jax.Array) -> jax.Array:
    """Return the cross entropy of a network with one hidden layer."""
    hidden = jax.nn.relu(image.reshape(len(image), -1) @ parameters["first"])
    chosen = jax.nn.log_softmax(hidden @ parameters["second"])
    return -jnp.take_along_axis(chosen, label[:, None], axis=1).mean()


def train(parameters: Parameters, image: jax.Array, label: jax.Array) -> tuple[Parameters, jax.Array]:
    """Do one step of gradient descent."""
    loss, gradients = jax.value_and_grad(loss_of)(parameters, image, label)
    return jax.tree.map(lambda value, slope: value - RATE * slope, parameters, gradients), loss


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description="A training loop in JAX.")
    parser.add_argument("folder", type=Path, help="folder of the dataset")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)

    mesh = Mesh(np.array(jax.devices()), "batch")
    loader = bushel.Loader(
        open_shapes(folder / "shapes"),
        BATCH,
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
    compiled = jax.jit(train)
    for _ in range(EPOCHS):
        epoch, losses = loader.epoch, []
        for batch in loader:
            parameters, loss = compiled(parameters, batch["image"], batch["label"])
            losses.append(loss)
        print(f"epoch {epoch}: mean loss {np.mean(jax.device_get(losses)):.4f} over {len(losses)} steps")


if __name__ == "__main__":
    main()
