"""What a repository of the model hub holds, through huggingface_hub. Blocks; imported only when something is pulled."""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from blazar_routing.errors import PullFailed, PullNotFound, PullRefused
from blazar_supervisor.pulls.network_words import reason_of
from blazar_supervisor.pulls.variants import RemoteFile

DEFAULT_ENDPOINT = "https://huggingface.co"
_LISTING_S = 30.0


@dataclass(frozen=True, slots=True)
class Listing:
    """A repository at one commit.

    Attributes:
        repository: ``owner/name``, as the hub spells it.
        commit: What its files are fetched from, so that a change in the middle cannot mix two versions.
        files: All of them.
    """

    repository: str
    commit: str
    files: tuple[RemoteFile, ...]


@dataclass(frozen=True, slots=True)
class Hub:
    """A model hub.

    Attributes:
        endpoint: Its base address, without a slash at the end.
        token: Sent to it, or ``None``.
    """

    endpoint: str = DEFAULT_ENDPOINT
    token: str | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        """What its own host is sent with each request for a file."""
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}

    def list_files(self, repository: str, revision: str) -> Listing:
        """Return what a repository holds. Blocks on the network.

        Raises:
            PullNotFound: There is no such repository or revision, or it needs a token.
            PullRefused: Its licence was not accepted.
            PullFailed: The hub does not answer.
        """
        # Read when the library is imported: what is pulled is nobody else's business.
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        logging.getLogger("httpx").setLevel(logging.WARNING)
        import httpx
        from huggingface_hub import HfApi
        from huggingface_hub.errors import (
            GatedRepoError,
            HfHubHTTPError,
            RepositoryNotFoundError,
            RevisionNotFoundError,
        )

        api = HfApi(endpoint=self.endpoint, token=self.token or False, library_name="blazar")
        try:
            info = api.model_info(repository, revision=revision, files_metadata=True, timeout=_LISTING_S)
        except GatedRepoError as error:
            raise PullRefused(
                f"{repository} is behind a licence: accept it at {self.endpoint}/{repository}, set HF_TOKEN to a token "
                "of your account, and run the same command again."
            ) from error
        except RepositoryNotFoundError as error:
            raise PullNotFound(
                f"there is no repository '{repository}' at {self.endpoint}, or it is private (then set HF_TOKEN). "
                "Check the spelling: owner/name, as in the address of its page."
            ) from error
        except RevisionNotFoundError as error:
            raise PullNotFound(
                f"{repository} has no branch, tag or commit '{revision}'. Leave @{revision} out."
            ) from error
        except (HfHubHTTPError, httpx.HTTPError, OSError) as error:
            raise PullFailed(
                f"{self.endpoint} does not list {repository}: {reason_of(error)}. Try again later, or set HF_ENDPOINT "
                "(or `hub` in [sources] of config.toml) to a mirror."
            ) from error
        files = tuple(
            RemoteFile(one.rfilename, one.size, one.lfs.sha256 if one.lfs is not None else None)
            for one in info.siblings or ()
            if one.size is not None
        )
        return Listing(info.id, info.sha or revision, files)

    def file_url(self, listing: Listing, path: str) -> str:
        """Return the address of a file of a listing."""
        return f"{self.endpoint}/{listing.repository}/resolve/{quote(listing.commit, safe='')}/{quote(path)}"


def find_hub(configured: str | None, environ: Mapping[str, str]) -> Hub:
    """Return the hub: the configured one, else ``HF_ENDPOINT``, else the public one; with ``HF_TOKEN``."""
    endpoint = configured or environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT
    return Hub(endpoint.rstrip("/"), environ.get("HF_TOKEN") or None)
