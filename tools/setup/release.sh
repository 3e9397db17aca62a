#!/bin/bash
# release.sh VERSION [OUT]: makes a release in OUT (else target/release-VERSION): sets the version, dates the changelog, builds
# the packages twice in two clones of the repository, compares them byte by byte, and leaves packages, SHA256SUMS, the list of
# parts (CycloneDX) and the release's notes. Then the commit and the tag vVERSION are in the repository; nothing is sent
# anywhere. The work tree must be clean. Takes twice as long as package.sh, whose variables it knows. With
# CLSCOPE_RELEASE_TRIAL=1 the repository stays as it is.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$here"
fail() { say "$*"; exit 1; }
version=${1:?"which version? release.sh 0.2.0"}
echo "$version" | grep -qE '^[0-9]+\.[0-9]+\.[0-9]+$' || fail "$version is no version: it has three numbers, as 0.2.0"
old=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
[ "$(printf '%s\n%s\n' "$old" "$version" | sort -V | tail -n 1)" = "$version" ] || fail "$version is older than $old, which Cargo.toml has"
[ -z "$(git status --porcelain)" ] || fail "there are changes that no commit has: commit or stash them; git status shows them"
! git rev-parse -q --verify "refs/tags/v$version" >/dev/null || fail "there is a tag v$version"
# What users are told: everything from the heading of what is not released to the next one.
notes=$(awk '/^## / { told = /^## Unreleased/; next } told' CHANGELOG.md)
[ -n "$(echo "$notes" | tr -d '[:space:]')" ] || fail "CHANGELOG.md has nothing below \"## Unreleased\": say there what changed"
out=${2:-$target/release-$version}
mkdir -p "$out"
out=$(cd "$out" && pwd)
[ -z "$(ls -A "$out")" ] || fail "$out is not empty"
find_cargo

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone -q --no-hardlinks "$here" "$work/first"
cd "$work/first"
say "version $old becomes $version"
sed -i "/^\[workspace.package\]/,/^\[/s/^version = \".*\"/version = \"$version\"/; s/^\(clscope-[a-z]* = { path = \"[^\"]*\", version = \)\"[^\"]*\"/\1\"$version\"/" Cargo.toml
sed -i "/^\[package\]/,/^\[/s/^version = \".*\"/version = \"$version\"/" tools/audit/Cargo.toml
# What a machine that built nothing yet has not; the versions stay as they are.
"$CARGO" fetch --quiet
"$CARGO" fetch --quiet --manifest-path tools/audit/Cargo.toml
"$CARGO" update --quiet --offline --workspace
"$CARGO" update --quiet --offline --workspace --manifest-path tools/audit/Cargo.toml
sed -i "s/^## Unreleased.*/## Unreleased\n\n## $version ($(date -u +%Y-%m-%d))/" CHANGELOG.md
"$CARGO" metadata --quiet --locked --offline --no-deps --format-version=1 >/dev/null || fail "Cargo.lock does not fit the new version"
git commit -q -am "Release $version"
git clone -q --no-hardlinks "$work/first" "$work/second"

mkdir -p "$cache"
for copy in first second; do
    say "building the packages: $copy of two"
    # Nothing is shared but the tools: other folders, other times.
    (cd "$work/$copy" && unset CARGO_TARGET_DIR && mkdir -p target && ln -s "$cache" target/setup &&
        tools/setup/package.sh "$work/$copy.packages")
done
diff -r "$work/first.packages" "$work/second.packages" || fail "the two builds are not the same bytes: no release"
say "both builds are the same bytes"
cp "$work"/first.packages/* "$out/"
{ echo "# clscope $version"; echo "$notes"; } >"$out/NOTES.md"

if [ "${CLSCOPE_RELEASE_TRIAL:-}" = 1 ]; then
    say "a trial: neither commit nor tag is made"
else
    cd "$here"
    git pull -q --ff-only "$work/first" HEAD
    git tag -a "v$version" -m "clscope $version"
    say "tag v$version is made. To send it: git push && git push origin v$version"
fi
say "the release is in $out"
