"""`python -m bushel` is the command `bushel`."""

from bushel.cli import main

if __name__ == "__main__":
    main()
