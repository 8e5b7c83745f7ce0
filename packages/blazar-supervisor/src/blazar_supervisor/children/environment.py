"""The environment a child gets: an allow-list, because engines read far more from it than one expects.

``LLAMA_ARG_*`` overrides defaults, ``LLAMA_API_KEY`` opens or closes the server, ``HF_TOKEN`` and ``LLAMA_CACHE``
make it fetch things, ``AIP_*`` changes its port. What is not known to be needed is left out.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

_NAMES = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR",
    "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH",
    "XDG_CACHE_HOME", "XDG_DATA_DIRS", "XDG_DATA_HOME", "XDG_RUNTIME_DIR",
    "GPU_DEVICE_ORDINAL", "ONEAPI_DEVICE_SELECTOR", "NEOReadDebugKeys",
})  # fmt: skip

_PREFIXES = (
    "LC_",  # locale
    "CUDA_", "NVIDIA_", "NCCL_", "__NV_", "__GLX_",
    "HIP_", "HSA_", "ROCR_", "ROCM_", "AMD_",
    "SYCL_", "ZE_", "ZES_", "UR_", "OPENVINO_",
    "VK_", "MESA_", "RADV_", "ANV_", "GGML_", "MTL_", "METAL_",
    "OMP_", "GOMP_", "KMP_", "OPENBLAS_", "MKL_", "MALLOC_",
)  # fmt: skip

LIBRARY_PATH = "DYLD_LIBRARY_PATH" if sys.platform == "darwin" else "LD_LIBRARY_PATH"
"""The variable that tells the dynamic loader where to look first."""


def child_environment(inherited: Mapping[str, str], *, library_dir: Path) -> dict[str, str]:
    """Return the environment for a child.

    Args:
        inherited: The daemon's own environment.
        library_dir: The engine binary's folder, put before other library folders: some official builds carry no
            run path (OpenVINO, SYCL), and back ends are opened by name.
    """
    environment = {name: value for name, value in inherited.items() if name in _NAMES or name.startswith(_PREFIXES)}
    others = environment.get(LIBRARY_PATH)
    environment[LIBRARY_PATH] = f"{library_dir}:{others}" if others else str(library_dir)
    return environment
