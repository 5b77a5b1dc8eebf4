#!/bin/sh
# `docker run IMAGE COMMAND ...` is `python -m gpuparse COMMAND ...`, with a first line on stderr
# that says version and commit.
set -eu

printf 'gpuparse: version %s\n' "$(python -m gpuparse --version | cut -d ' ' -f 2-)" >&2

# Triton and torch keep compiled GPU code in a folder that the user can write to: in /tmp, or
# GPUPARSE_CACHE, which can be a mounted folder.
cache=${GPUPARSE_CACHE:-${TMPDIR:-/tmp}/gpuparse-$(id -u)}
if ! mkdir -p "$cache"; then
    echo "gpuparse: error: $cache: cannot be written; mount a folder and name it in" \
        "GPUPARSE_CACHE" >&2
    exit 5
fi
export TRITON_CACHE_DIR="$cache/triton"
export TORCHINDUCTOR_CACHE_DIR="$cache/torch"
export HOME="$cache"

exec python -m gpuparse "$@"
