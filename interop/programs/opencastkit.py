"""OpenCastKit: what writes its weather data, and the dataset over them (FFRecord's loader needs an older PyTorch)."""

import pickle
from pathlib import Path

import numpy as np
from run_program import packages, show, show_files, stand_ins


def run(folder: Path) -> None:
    """Write samples, and read them at random."""
    packages(folder, "data_factory")
    stand_ins(
        "dask",
        "xarray",
        "dateutil",
        "dateutil.relativedelta",
        "torch_geometric",
        "torch_geometric.data",
        "data_factory.graph_tools",
    )
    from data_factory import convert_era5_hourly, datasets

    fields = np.random.default_rng(0).normal(size=(12, 4, 6, 24)).astype(np.float32)
    fields[2, 1, 1, 3] = np.nan
    Path("output/data/train.ffr").mkdir(parents=True)
    for month in range(2):
        part = fields[month * 4 : month * 4 + 6]
        samples = convert_era5_hourly.dataset_to_sample(part, 0.5, 2.0)
        convert_era5_hourly.write_dataset(*samples, Path(f"output/data/train.ffr/{month:03}.ffr"))
    show_files("output")
    with Path("output/data/scaler.pkl").open("wb") as file:
        pickle.dump({"mean": np.zeros(24), "std": np.ones(24)}, file)
    dataset = datasets.ERA5("train", check_data=True, modelname="fourcastnet")
    show("samples", dataset[[6, 1, 3]])
