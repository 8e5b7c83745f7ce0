"""Exact memory arithmetic for llama.cpp models, and a verdict before anything is loaded."""

from blazar_budget.buffers import CacheBuffer, LayerMemory, StateBuffer
from blazar_budget.cache_types import CacheType, cache_type
from blazar_budget.cells import CellLayout, cell_layout
from blazar_budget.compute import ComputeEstimate
from blazar_budget.contract import (
    OVERHEAD_BYTES,
    estimate_kv_vram_charge,
    scale_kv_by_cache_type,
    weights_floor,
)
from blazar_budget.errors import BudgetError, UnknownCacheType, UnservableSettings
from blazar_budget.footprint import Demand, Footprint, Launch, footprint
from blazar_budget.judgement import Room
from blazar_budget.kv import KvCache, kv_cache
from blazar_budget.levers import Levers
from blazar_budget.listings import ListedDevice, parse_list_devices
from blazar_budget.machine import Gpu, Machine, Memory, Pool, Vendor, cap_cache_ram_mb
from blazar_budget.memory import is_known
from blazar_budget.offload import HOST, Device, LayerMap, Offload, map_layers
from blazar_budget.report import verdict_facts
from blazar_budget.rows import CacheKind
from blazar_budget.search import ContextChoice, default_context, max_ctx_that_fits, max_gpu_layers_that_fit
from blazar_budget.settings import CacheSettings, FlashAttention
from blazar_budget.verdict import Answer, Fit, FitWithWarning, Refuse, Verdict, unified_ctx_verdict
from blazar_budget.weights import WeightShare, place_weights

__all__ = [
    "HOST",
    "OVERHEAD_BYTES",
    "Answer",
    "BudgetError",
    "CacheBuffer",
    "CacheKind",
    "CacheSettings",
    "CacheType",
    "CellLayout",
    "ComputeEstimate",
    "ContextChoice",
    "Demand",
    "Device",
    "Fit",
    "FitWithWarning",
    "FlashAttention",
    "Footprint",
    "Gpu",
    "KvCache",
    "Launch",
    "LayerMap",
    "LayerMemory",
    "Levers",
    "ListedDevice",
    "Machine",
    "Memory",
    "Offload",
    "Pool",
    "Refuse",
    "Room",
    "StateBuffer",
    "UnknownCacheType",
    "UnservableSettings",
    "Vendor",
    "Verdict",
    "WeightShare",
    "cache_type",
    "cap_cache_ram_mb",
    "cell_layout",
    "default_context",
    "estimate_kv_vram_charge",
    "footprint",
    "is_known",
    "kv_cache",
    "map_layers",
    "max_ctx_that_fits",
    "max_gpu_layers_that_fit",
    "parse_list_devices",
    "place_weights",
    "scale_kv_by_cache_type",
    "unified_ctx_verdict",
    "verdict_facts",
    "weights_floor",
]
