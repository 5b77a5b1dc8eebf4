#!/usr/bin/env bash
# Make cpu.lock and cuda.lock anew from the part of requirements.txt that the package needs.
# Needs uv (https://docs.astral.sh/uv/): `pip install uv`.
set -euo pipefail
cd "$(dirname "$0")/.."

packages() { sed -n '/^# the package/,/^# tests/p' requirements.txt | grep '=='; }

# lock TARGET WHERE OPTION...: what uv makes of the packages on stdin.
lock() {
    local target=$1 where=$2
    shift 2
    {
        echo "# All packages of the image for $where, with the hashes of their files."
        echo "# Made by docker/lock.sh; not edited by hand."
        uv pip compile --quiet --no-config --no-header --no-annotate --generate-hashes \
            --python-version 3.11 --python-platform x86_64-manylinux_2_28 "$@" -
    } > "docker/$target.lock"
}

# Without CUDA there is nothing for Triton to do. A page or a folder of PyTorch's builds without CUDA:
wheels=${TORCH_WHEELS:-https://download.pytorch.org/whl/cpu/torch/}
packages | grep -v '^triton' | sed -E 's/^(torch==[0-9.]+)$/\1+cpu/' |
    lock cpu "the CPU" --find-links "$wheels" --no-emit-find-links
packages | lock cuda CUDA
