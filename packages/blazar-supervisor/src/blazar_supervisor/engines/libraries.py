"""Shared libraries that engines need, and where a system gets them from."""

_PACKAGES = {
    "libgomp.so.1": "libgomp1",
    "libstdc++.so.6": "libstdc++6",
    "libcurl.so.4": "libcurl4",
    "libssl.so.3": "libssl3",
    "libcrypto.so.3": "libssl3",
    "libvulkan.so.1": "libvulkan1",
    "libOpenCL.so.1": "ocl-icd-libopencl1",
    "libopenblas.so.0": "libopenblas0",
    "libnuma.so.1": "libnuma1",
    "libcuda.so.1": "libcuda1 (comes with the NVIDIA driver)",
    "libgcc_s.so.1": "libgcc-s1",
}


def library_package(library: str) -> str:
    """Return the Debian package that has ``library``, in words for people."""
    if package := _PACKAGES.get(library):
        return f"Debian and Ubuntu have it in the package {package}"
    if library.startswith(("libcudart", "libcublas")):
        return "it belongs to the CUDA runtime and must lie in the engine's folder"
    if library.startswith(("libllama", "libggml", "libmtmd")):
        return "it belongs to the engine itself: keep the engine's folder whole"
    return f"find its package with `apt-file search {library}`"
