"""From a name to files that are there: what it means, what of it is taken and why, and fetching that."""

import asyncio
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path, PurePosixPath
from socket import SOCK_STREAM, getaddrinfo
from urllib.parse import urlsplit

from blazar_budget import Launch, Memory
from blazar_gguf import GgufMeta
from blazar_gguf.remote import read_metadata_url
from blazar_routing.errors import PullNotFound, PullRefused
from blazar_routing.lanes import kinds_for
from blazar_routing.shape import FormatShape, ShardFormat, is_quantized_safetensors
from blazar_store.layout import encode_name
from blazar_supervisor.pulls.addresses import AddressPolicy, ForbiddenAddress
from blazar_supervisor.pulls.choosing import Choice, Fits, Judged, choose
from blazar_supervisor.pulls.components import component_files, component_sets
from blazar_supervisor.pulls.download import Downloader, Fetched, Report, Wanted
from blazar_supervisor.pulls.hub import Hub, Listing
from blazar_supervisor.pulls.reference import (
    HubReference,
    MalformedReference,
    Reference,
    ShortName,
    UrlReference,
    parse_reference,
)
from blazar_supervisor.pulls.short_names import find_known, near_known
from blazar_supervisor.pulls.variants import Offer, RemoteFile, Variant, VariantKind, find_variants, sort_files
from blazar_supervisor.pulls.verdicts import judge_offer, labels_of, read_patiently

_MAGIC = b"GGUF"


@dataclass(frozen=True, slots=True)
class Shelf:
    """What a repository offers this machine.

    Attributes:
        listing: The repository.
        offer: Its files, sorted.
        judged: Its variants with their verdicts, smallest first.
    """

    listing: Listing
    offer: Offer
    judged: tuple[Judged, ...]


@dataclass(frozen=True, slots=True)
class PullPlan:
    """What a pull will do.

    Attributes:
        name: Of the row it becomes, or ``None`` to derive it from the file.
        wanted: The files; the model's first one first.
        projector: The one of them that is a projector, or ``None``.
        reason: Why this variant, in a sentence, or ``""`` when it was named.
        directory: The one that is the model, where it is a directory and not a file.
        components: Of a diffusion model, the engine's flag and the file of each part.
    """

    name: str | None
    wanted: tuple[Wanted, ...]
    projector: Path | None = None
    reason: str = ""
    directory: Path | None = None
    components: tuple[tuple[str, Path], ...] = ()

    @property
    def total_bytes(self) -> int:
        """Bytes of all files whose size is known."""
        return sum(wanted.size or 0 for wanted in self.wanted)


@dataclass(frozen=True, slots=True)
class Pulled:
    """Files that are there now.

    Attributes:
        plan: What was to be done.
        files: In the plan's order.
    """

    plan: PullPlan
    files: tuple[Fetched, ...]


@dataclass(frozen=True, slots=True)
class Puller:
    """Pulls models.

    Attributes:
        hub: Where repositories are.
        downloader: Fetches files.
        models_dir: Nothing is written outside it.
        memory: Returns what the machine has when nothing is loaded, or ``None`` when that is unknown. Blocks.
        launch: How models are started here, apart from their context.
        installed: The engine kinds there are.
        read_header: Reads the header behind an address; blocks.
    """

    hub: Hub
    downloader: Downloader
    models_dir: Path
    memory: Callable[[], Memory | None]
    launch: Launch = field(default_factory=lambda: Launch(ctx=0, parallel=4, unified=True))
    installed: frozenset[str] = frozenset()
    read_header: Callable[[str, Mapping[str, str], AddressPolicy], GgufMeta] = field(
        default=lambda url, headers, policy: read_metadata_url(url, headers=headers, check=_check(policy))
    )

    async def look(self, reference: HubReference) -> Shelf:
        """Return what a repository offers, with verdicts; nothing is fetched but one header.

        Raises:
            PullNotFound, PullRefused, PullFailed: It cannot be listed, or holds no model.
        """
        listing = await asyncio.to_thread(self.hub.list_files, reference.repository, reference.revision)
        offer = offer_of(listing.files)
        if not offer.variants:
            raise PullNotFound(
                f"{listing.repository} holds no model that could be served: no .gguf file and no safetensors. "
                "Look for a repository whose name ends in -GGUF."
            )
        judged = await asyncio.to_thread(self._judge, listing, offer)
        return Shelf(listing, offer, judged)

    def choose(self, shelf: Shelf) -> Choice:
        """Return what is taken when nobody said: a GGUF, or what an installed engine serves."""
        shapes = {one.variant.label: shape_of_variant(shelf.listing.repository, one.variant) for one in shelf.judged}
        kinds = {label: kinds_for(shape) for label, shape in shapes.items()}
        served = [
            one
            for one in shelf.judged
            if one.variant.kind is VariantKind.GGUF or self.installed.intersection(kinds[one.variant.label])
        ]
        if served:
            return choose([one for one in served if one.variant.kind is served[0].variant.kind])
        first = shelf.judged[0].variant
        wanted = " or ".join(kinds[first.label])
        return Choice(None, f"{shapes[first.label]} needs {wanted}, and no such engine is installed")

    async def plan(self, text: str) -> PullPlan:
        """Return what pulling ``text`` means.

        Raises:
            PullRefused: It says nothing, or more than one thing, or nothing of it fits.
            PullNotFound, PullFailed: It is not there, or the hub does not answer.
        """
        reference, name = resolve_reference(text)
        if isinstance(reference, UrlReference):
            return self._plan_url(reference)
        return await self._plan_hub(reference, name)

    async def pull(self, plan: PullPlan, report: Report) -> Pulled:
        """Fetch what is missing of a plan.

        Args:
            plan: See :meth:`plan`.
            report: Called with the bytes there and in all, over all files together.

        Raises:
            PullRefused, PullNotFound, PullFailed: See :meth:`Downloader.fetch`.
        """
        fetched: list[Fetched] = []
        for wanted in plan.wanted:
            before = sum(one.size for one in fetched)

            def tell(done: int, total: int, before: int = before) -> None:
                report(before + done, max(plan.total_bytes, before + total))

            fetched.append(await self.downloader.fetch(wanted, tell))
        return Pulled(plan, tuple(fetched))

    def _judge(self, listing: Listing, offer: Offer) -> tuple[Judged, ...]:
        def read(file: RemoteFile) -> GgufMeta:
            url = self.hub.file_url(listing, file.path)
            return read_patiently(lambda: self.read_header(url, self.hub.headers, self.downloader.policy))

        return judge_offer(offer, read, self.launch, self.memory())

    async def _plan_hub(self, reference: HubReference, name: str | None) -> PullPlan:
        if reference.choice is None:
            shelf = await self.look(reference)
            listing, offer = shelf.listing, shelf.offer
            choice = self.choose(shelf)
            if choice.judged is None:
                raise PullRefused(_nothing(listing, shelf.judged, choice.reason))
            variant, reason = choice.judged.variant, choice.reason
            if choice.judged.fits is not Fits.UNKNOWN:
                reason = f"{reason}; it {choice.judged.detail}"
        else:
            listing = await asyncio.to_thread(self.hub.list_files, reference.repository, reference.revision)
            offer, reason = offer_of(listing.files), ""
            variant = _named(listing, offer, reference.choice)
        return self._plan_variant(reference, listing, offer, variant, name=name, reason=reason)

    def _plan_variant(
        self,
        reference: HubReference,
        listing: Listing,
        offer: Offer,
        variant: Variant,
        *,
        name: str | None,
        reason: str,
    ) -> PullPlan:
        if not variant.complete:
            lacks = variant.lacks or f"some of its parts ({len(variant.files)} are there)"
            raise PullRefused(
                f"{variant.label} of {listing.repository} is a set with parts missing: it lacks {lacks}, so it could "
                "not be loaded. Nothing was fetched; choose another variant or repository."
            )
        where = listing.repository if reference.revision == "main" else f"{listing.repository}@{reference.revision}"
        directory = self.models_dir.joinpath(*(encode_name(part) for part in where.split("/", 1)))
        projectors = offer.projectors[:1] if variant.kind is VariantKind.GGUF else ()
        wanted = tuple(self._want(listing, file, directory) for file in (*variant.files, *projectors))
        projector = wanted[-1].target if projectors else None
        parts = tuple(zip(variant.flags, (one.target for one in wanted), strict=False)) if variant.flags else ()
        folder = directory if variant.kind is VariantKind.SAFETENSORS else None
        return PullPlan(name or f"{where}:{variant.label}", wanted, projector, reason, folder, parts)

    def _want(self, listing: Listing, file: RemoteFile, directory: Path) -> Wanted:
        return Wanted(
            url=self.hub.file_url(listing, file.path),
            target=place_below(directory, file.path),
            size=file.size,
            sha256=file.sha256,
            magic=_MAGIC if file.path.lower().endswith(".gguf") else b"",
            headers=self.hub.headers,
        )

    def _plan_url(self, reference: UrlReference) -> PullPlan:
        host = urlsplit(reference.url).netloc.rpartition("@")[2]
        target = place_below(self.models_dir / encode_name(host), reference.file_name)
        return PullPlan(None, (Wanted(reference.url, target, magic=_MAGIC),))


def offer_of(files: Sequence[RemoteFile]) -> Offer:
    """Return what a repository offers; the parts of a diffusion model are no text models."""
    sets = component_sets(files)
    taken = component_files(sets)
    offer = sort_files(file for file in files if file.path not in taken) if sets else sort_files(files)
    return replace(offer, variants=(*offer.variants, *sets)) if sets else offer


def shape_of_variant(repository: str, variant: Variant) -> FormatShape:
    """Return what a variant is for routing, as far as names tell; the files themselves are asked once they are here."""
    if variant.kind is VariantKind.GGUF:
        return FormatShape(ShardFormat.GGUF)
    if variant.kind is VariantKind.DIFFUSION:
        return FormatShape(ShardFormat.GGUF, diffusion=True)
    owner, _, name = repository.lower().partition("/")
    quantized = is_quantized_safetensors(name=repository, repository=repository, path="")
    mlx = owner == "mlx-community" or name.endswith("-mlx")
    return FormatShape(ShardFormat.detect(is_dir=True, quantized=quantized, mlx=mlx))


def resolve_reference(text: str) -> tuple[HubReference | UrlReference, str | None]:
    """Return what ``text`` refers to, and the row name that it asks for (a short name keeps its own).

    Raises:
        PullRefused: Nothing.
    """
    try:
        reference: Reference = parse_reference(text)
    except MalformedReference as error:
        raise PullRefused(str(error)) from error
    if not isinstance(reference, ShortName):
        return reference, None
    known = find_known(reference.name)
    if known is None:
        near = near_known(reference.name)
        hint = f" Near it: {', '.join(near)}." if near else ""
        raise PullRefused(
            f"'{reference.name}' is not in the catalogue of short names.{hint} See them with `blazar models search`, "
            "or name a repository of the hub: `blazar pull owner/repository`."
        )
    return HubReference(known.repository), known.name


def place_below(directory: Path, path: str) -> Path:
    """Return where a file of a repository goes; it cannot leave ``directory``.

    Raises:
        PullRefused: Its path would.
    """
    parts = PurePosixPath(path).parts
    if not parts or any(part in {"..", "/", "."} or "\\" in part or "\0" in part for part in parts):
        raise PullRefused(f"the file name '{path}' would leave the models directory. Nothing was fetched.")
    # A leading dot is what downloads in progress have.
    return directory.joinpath(*(part if not part.startswith(".") else f"_{part[1:]}" for part in parts))


def _named(listing: Listing, offer: Offer, choice: str) -> Variant:
    found = find_variants(offer, choice)
    if not found:
        raise PullNotFound(
            f"{listing.repository} has no '{choice}'. It offers: {labels_of(offer.variants) or 'nothing to serve'}."
        )
    if len(found) > 1:
        paths = ", ".join(variant.files[0].path for variant in found)
        first = shlex.quote(f"{listing.repository}:{found[0].files[0].path}")
        raise PullRefused(
            f"'{choice}' is {len(found)} things in {listing.repository}: {paths}. Name one: `blazar pull {first}`."
        )
    return found[0]


def _nothing(listing: Listing, judged: Sequence[Judged], reason: str) -> str:
    smallest = next((one for one in judged if one.variant.complete), None)
    if smallest is None:
        return f"nothing of {listing.repository} can be fetched: {reason}. Choose another repository."
    named = shlex.quote(f"{listing.repository}:{smallest.variant.label}")
    detail = f" {smallest.detail}." if smallest.detail and not smallest.detail.endswith(".") else f" {smallest.detail}"
    return (
        f"nothing of {listing.repository} was fetched: {reason}.{detail.rstrip()} "
        f"To fetch one all the same, name it: `blazar pull {named}`."
    )


def _check(policy: AddressPolicy) -> Callable[[str], bool]:
    """Return whether an address may be asked, its name resolved; for the reader of headers."""

    def check(url: str) -> bool:
        parts = urlsplit(url)
        try:
            policy.check_url(url)
            if not policy.trusts(url):
                for found in getaddrinfo(parts.hostname, parts.port or 443, type=SOCK_STREAM):
                    policy.check_address(url, ip_address(str(found[4][0]).partition("%")[0]))
        except (ForbiddenAddress, OSError):
            return False
        return True

    return check
