#!/bin/sh
# While the image is built: note the commit, compile the kernels.
set -eu

commit=${1-}
if ! printf '%s\n' "$commit" | grep -Eqx '[0-9a-f]{7,40}(-dirty)?'; then
    echo "give --build-arg COMMIT=\"\$(git rev-parse HEAD)\": an image says what it was made of" >&2
    exit 2
fi
root=$(dirname "$(readlink -f "$0")")
printf '%s\n' "$commit" > "$root/COMMIT"
chmod -R u=rwX,go=rX "$root"
chmod a+x "$root/entry.sh"
# Compiled code is kept for sources of one date; whole seconds survive wherever the image goes.
find "$root/gpuparse" -exec touch --date=@1700000000 {} +

# A head start: kernels are compiled for the processor that builds the image, and another one
# compiles what it needs again, into the cache of the run.
export NUMBA_CACHE_DIR="$root/kernels"
python -m gpuparse compile --all
chmod -R u=rwX,go=rX "$root"
