#!/bin/sh
# `docker run IMAGE COMMAND ...` is `python -m gpuparse COMMAND ...`, with a first line on stderr
# that says version and commit.
set -eu

root=$(dirname "$(readlink -f "$0")")
printf 'gpuparse: version %s\n' "$(python -m gpuparse --version | cut -d ' ' -f 2-)" >&2

# What is compiled in a run needs a folder that the user may write to, whoever that is: /tmp, or
# GPUPARSE_CACHE, which can be a mount that outlives the run.
cache=${GPUPARSE_CACHE:-${TMPDIR:-/tmp}/gpuparse-$(id -u)}
if [ ! -d "$cache/kernels" ]; then
    # Renamed when complete: another run may share the folder.
    if ! { mkdir -p "$cache" && cp -R "$root/kernels" "$cache/kernels.$$"; }; then
        echo "gpuparse: error: $cache: cannot be written; mount a folder and name it in" \
            "GPUPARSE_CACHE" >&2
        exit 5
    fi
    mv -T "$cache/kernels.$$" "$cache/kernels" 2>/dev/null || rm -rf "$cache/kernels.$$"
fi
export NUMBA_CACHE_DIR="$cache/kernels"
export TRITON_CACHE_DIR="$cache/triton"
export TORCHINDUCTOR_CACHE_DIR="$cache/torch"
export HOME="$cache"

exec python -m gpuparse "$@"
