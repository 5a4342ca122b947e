"""`bushel sign`."""

from __future__ import annotations

from typing import Annotated

from bushel.cli.command import Option
from bushel.cli.options import OnePath, OutputOptions, Workers


def command(
    path: OnePath,
    *,
    key: Annotated[
        str | None, Option("--key", help="Sign the digest with this key of OpenSSH (ssh-keygen -Y sign).")
    ] = None,
    workers: Workers = None,
    shown: OutputOptions,
) -> None:
    """Write a digest of a dataset that covers every byte, for a tool that signs it.

    The digest is PATH/.bushel/digest.txt: the SHA-256 of every file, as sha256sum prints it, and the fields, the names
    of classes, and the list of removed samples. Any tool that signs a file can sign it; --key uses ssh-keygen.
    `bushel verify --digest` compares, and `--allowed-signers FILE --signer NAME` checks the signature.

    Examples:
      bushel sign train/
      bushel sign train/ --key ~/.ssh/id_ed25519
      bushel verify train/ --digest --allowed-signers signers.txt --signer ann@example.com
    """
    import bushel
    from bushel.cli.output import print_json, print_text
    from bushel.integrity.signing import NAMESPACE

    place = bushel.sign(path, key=key, workers=workers)
    if shown.as_json:
        print_json({"path": path, "digest": str(place), "signature": None if key is None else f"{place}.sig"})
    elif not shown.quiet:
        print_text(f"{place}: written" if key is None else f"{place}: written, and signed in {place.name}.sig")
        if key is None:
            print_text(f"Sign it with `ssh-keygen -Y sign -f KEY -n {NAMESPACE} {place}`, or with another tool.")
