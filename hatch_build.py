"""The build hook: wheels have configs, pages, examples, the compiled library (native/build.py).

`pip install -e .` compiles into the checkout for this machine, `pip install .` into the wheel. With
GPUPARSE_WHEEL=x86_64-linux (or another of TARGETS in native/build.py) a wheel is made for all
machines of that kind, by zig. Without a compiler the package ziglang is asked for as a build
requirement; where neither is at hand, the installation fails.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
# Where ziglang has wheels: asked for elsewhere, it would make the installation fail.
ZIG_MACHINES = {
    "linux": {"x86_64", "amd64", "aarch64", "arm64"},
    "darwin": {"x86_64", "arm64"},
}


def load_build() -> Any:
    """native/build.py as a module."""
    spec = importlib.util.spec_from_file_location("native_build", ROOT / "native" / "build.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class NativeBuildHook(BuildHookInterface):
    """Compiles the library before files are collected."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """ziglang, where there is no compiler or one for another system is needed."""
        if self.target_name != "wheel":
            return []
        build = load_build()
        try:
            build.find_compiler(os.environ.get("GPUPARSE_WHEEL", ""))
            return []
        except build.BuildError:
            system, _, machine = sysconfig.get_platform().partition("-")
            system = "darwin" if system == "macosx" else system
            machine = machine.rpartition("-")[2]
            return ["ziglang>=0.15"] if machine in ZIG_MACHINES.get(system, set()) else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Take configs and pages along, and compile.

        Raises: SystemExit: the library cannot be compiled here; the text says what to install.
        """
        if self.target_name != "wheel":
            return
        if version != "editable":  # a checkout has them beside the package
            build_data["force_include"][str(ROOT / "configs")] = "gpuparse/configs"
            for page in ROOT.glob("docs/*.md"):
                build_data["force_include"][str(page)] = f"gpuparse/docs/{page.name}"
            build_data["force_include"][str(ROOT / "examples")] = "gpuparse/examples"
        build = load_build()
        wheel_for = os.environ.get("GPUPARSE_WHEEL", "")
        try:
            if version == "editable":
                build.build(say=False)
                return
            folder = build.OUTPUT / "wheel"
            shutil.rmtree(folder, ignore_errors=True)
            if wheel_for:
                build.build_levels(wheel_for, folder, say=False)
                platform = build.TARGETS[wheel_for][1]
            else:
                build.build(folder=folder, say=False)
                platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        except build.BuildError as error:
            raise SystemExit(
                f"gpuparse cannot be installed without compiled code: {error}"
            ) from None
        build_data["force_include"][str(folder)] = "gpuparse/_native"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
