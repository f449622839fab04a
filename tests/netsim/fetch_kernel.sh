#!/bin/sh
# Unpacks Debian's newest cloud kernel into the folder DIR without installing it: DIR/vmlinuz and
# DIR/modules with the modules for a netem link. Does nothing if DIR/vmlinuz exists.
set -eu
dir=$1
[ -e "$dir/vmlinuz" ] && exit 0
package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null |
  sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
if [ -z "$package" ]; then
  echo "no package linux-image-cloud-amd64 in this system's archives (it is Debian's)" >&2
  exit 1
fi
rm -rf "$dir.part"
mkdir -p "$dir.part/unpacked" "$dir.part/modules"
cd "$dir.part"
user=root
[ "$(id -u)" -eq 0 ] || user=$(id -un)
apt-get -o APT::Sandbox::User="$user" download "$package" >download.log 2>&1 || {
  cat download.log >&2
  exit 1
}
dpkg-deb -x ./*.deb unpacked
for module in veth sch_netem sch_tbf; do
  found=$(find unpacked -name "$module.ko*")
  case $found in
    *.ko) cp "$found" modules/ ;;
    *.ko.xz) xz -dc "$found" >"modules/$module.ko" ;;
    *) echo "$package has no module $module" >&2; exit 1 ;;
  esac
done
cp unpacked/boot/vmlinuz-* vmlinuz
rm -rf unpacked ./*.deb
cd ..
mv "$dir.part" "$dir"
