"""MXNet's tools/im2rec.py: lists, and record files of images as they are."""

from pathlib import Path

from run_program import picture, run_script, show_files, stand_ins


def run(folder: Path) -> None:
    """Make lists of a tree, and records of them, by one thread and by two processes."""
    import mxnet  # noqa: F401 it takes OpenCV before the stand-in is there

    stand_ins("cv2")
    for number in range(9):
        place = Path("photos", "abc"[number % 3])
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.jpg").write_bytes(picture(number))
    script = folder / "tools/im2rec.py"
    Path("out").mkdir()
    run_script(script, "out/all", "photos", "--list", "--recursive")
    run_script(
        script,
        "out/two",
        "photos",
        "--list",
        "--recursive",
        "--no-shuffle",
        "--chunks",
        "2",
        "--train-ratio",
        "0.75",
        "--test-ratio",
        "0.25",
    )
    Path("out/labels.lst").write_text("5\t1.0\t2.5\ta/0.jpg\n7\t3.0\t4.5\tb/1.jpg\nbroken\n")
    for prefix, *more in (("all",), ("two", "--num-thread", "2"), ("labels", "--pack-label")):
        run_script(script, f"out/{prefix}", "photos", "--pass-through", *more)
    show_files("out")
