"""S3 credentials and settings from where the tools of AWS keep them.

The environment and the roles of machines, containers and pods are obstore's work. What it does not read are the files
`~/.aws/credentials` and `~/.aws/config`: plain keys in them are read here, and what takes more (single sign-on, roles
to be assumed, a credential process) is left to boto3 where that is installed.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bushel.errors import UnsupportedError

__all__ = ["s3_settings"]

_OBSTORE_FINDS_THEM = (
    "AWS_ACCESS_KEY_ID",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
)
_BEYOND = ("sso_session", "sso_start_url", "role_arn", "credential_process", "web_identity_token_file", "login_session")


def s3_settings(environment: Mapping[str, str]) -> dict[str, Any]:
    """Arguments for obstore's `S3Store` that it would not find by itself.

    Args:
        environment: The variables that begin with `AWS_`.

    Raises:
        UnsupportedError: The profile takes boto3, which is not installed.
    """
    settings: dict[str, Any] = {}
    profile = _profile(environment)
    if "AWS_REGION" not in environment and "AWS_DEFAULT_REGION" not in environment and "region" in profile:
        settings["region"] = profile["region"]
    if "AWS_ENDPOINT_URL_S3" in environment:
        settings["endpoint"] = environment["AWS_ENDPOINT_URL_S3"]
    elif not {"AWS_ENDPOINT_URL", "AWS_ENDPOINT"} & environment.keys() and "endpoint_url" in profile:
        settings["endpoint"] = profile["endpoint_url"]
    if _is_true(environment.get("AWS_SKIP_SIGNATURE")):
        return settings
    if any(name in environment for name in _OBSTORE_FINDS_THEM) and "AWS_PROFILE" not in environment:
        return settings
    if "AWS_ACCESS_KEY_ID" in environment:
        return settings
    if "aws_access_key_id" in profile and "aws_secret_access_key" in profile:
        settings["access_key_id"] = profile["aws_access_key_id"]
        settings["secret_access_key"] = profile["aws_secret_access_key"]
        if "aws_session_token" in profile:
            settings["session_token"] = profile["aws_session_token"]
    elif any(name in profile for name in _BEYOND):
        settings["credential_provider"] = _boto3(environment.get("AWS_PROFILE", "default"))
    return settings


def _is_true(text: str | None) -> bool:
    return text is not None and text.lower() in ("1", "true", "yes")


def _profile(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings of the chosen profile, those of the credentials file before those of the config file."""
    import configparser

    name = environment.get("AWS_PROFILE", "default")
    home = Path(os.path.expanduser("~")) / ".aws"
    found: dict[str, str] = {}
    for variable, usual, section in (
        ("AWS_CONFIG_FILE", home / "config", name if name == "default" else f"profile {name}"),
        ("AWS_SHARED_CREDENTIALS_FILE", home / "credentials", name),
    ):
        parser = configparser.RawConfigParser()
        try:
            parser.read(environment.get(variable, usual), encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError) as error:
            raise UnsupportedError(_unreadable(environment.get(variable, usual), error)) from None  # it quotes secrets
        if parser.has_section(section):
            found |= {key: value for key, value in parser.items(section) if value}
    return found


def _unreadable(path: object, error: Exception) -> str:
    """What is wrong with a file of credentials, without any of its text."""
    lines = [number for number, _ in getattr(error, "errors", ())] or [getattr(error, "lineno", None)]
    where = "" if lines[0] is None else f" (line {', '.join(map(str, lines))})"
    return f"{path} cannot be read{where}: it is to have [sections] of lines `name = value`; correct it or remove it"


def _boto3(profile: str) -> Any:
    if importlib.util.find_spec("boto3") is None:
        raise UnsupportedError(
            f"the AWS profile {profile!r} takes boto3 to log in, which is not installed; run: pip install boto3, "
            f"or: eval $(aws configure export-credentials --profile {profile} --format env)"
        )
    import boto3
    from obstore.auth.boto3 import Boto3CredentialProvider

    return Boto3CredentialProvider(boto3.session.Session(profile_name=profile))
