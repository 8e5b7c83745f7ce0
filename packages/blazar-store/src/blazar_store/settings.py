"""The settings in ``config.toml``: the way in for everybody else.

``settings_fields`` declares them, ``settings_files`` reads them, ``settings_words`` describes them,
``settings_watch`` notices edits; :mod:`blazar_store.config_file`, apart because it loads tomlkit, makes edits.
"""

from blazar_store.settings_engine import LoraAdapter
from blazar_store.settings_fields import Settings, Sources
from blazar_store.settings_files import load_settings, parse_settings
from blazar_store.settings_keys import KeyEntry
from blazar_store.settings_models import ModelKnobs, ModelSettings, ModelTable
from blazar_store.settings_preload import PreloadEntry
from blazar_store.settings_request import RequestParameters, RequestSettings
from blazar_store.settings_values import CacheType
from blazar_store.settings_watch import FileStamp, Reload, SettingsWatch, changed, file_stamp
from blazar_store.settings_words import (
    SettingDescription,
    describe_settings,
    needs_restart,
    sample_config,
    settings_schema,
)

__all__ = [
    "CacheType",
    "FileStamp",
    "KeyEntry",
    "LoraAdapter",
    "ModelKnobs",
    "ModelSettings",
    "ModelTable",
    "PreloadEntry",
    "Reload",
    "RequestParameters",
    "RequestSettings",
    "SettingDescription",
    "Settings",
    "SettingsWatch",
    "Sources",
    "changed",
    "describe_settings",
    "file_stamp",
    "load_settings",
    "needs_restart",
    "parse_settings",
    "sample_config",
    "settings_schema",
]
