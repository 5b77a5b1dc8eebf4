#!/bin/sh
# While the image is built: write the commit, and make the files readable for any user.
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
