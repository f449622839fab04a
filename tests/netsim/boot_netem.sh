#!/bin/sh
# Boots the kernel in KERNEL under QEMU's own emulation and runs the script SCRIPTS/link.sh that
# `edgedraft-netsim link --driver tc --dry-run` wrote. PROBE then measures the link: COUNT round
# trips, then rate and order of BLAST packets of 1,400 bytes down. After each of the scripts
# down.sh, up.sh and moved.sh it counts unanswered packets of three. The machine's clock follows the
# instructions that it executes (-icount), so a busy host changes only the run time.
#
# Prints the machine's output between the lines `begin` and `end`.
set -eu
kernel=$1 scripts=$2 probe=$3 count=$4 blast=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root/bin" "$root/usr/sbin" "$root/proc" "$root/sys" "$root/dev" "$root/tmp" "$root/modules"
cp /bin/busybox "$root/bin/busybox"
cp "$probe" "$root/bin/probe"
cp "$scripts"/*.sh "$root/"
cp "$kernel"/modules/*.ko "$root/modules/"
# Busybox prefers its built-in ip and tc to those in the path, so the script must get the real ones.
for program in sh nsenter unshare ip tc; do
  path=$(PATH=$PATH:/usr/sbin:/sbin command -v $program)
  cp -L "$path" "$root/usr/sbin/$program"
  ldd "$path" | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
  done
done
cat >"$root/init" <<'END'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/usr/sbin:/bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
for module in /modules/*.ko; do insmod "$module"; done
/usr/sbin/sh -x /link.sh >/link.log 2>/link.err &
tries=0
until grep -q "device's end" /link.log; do
  tries=$((tries + 1))
  if [ $tries -gt 300 ]; then tail -n 5 /link.err; echo end; poweroff -f; fi
  sleep 0.1
done
at_server=$(sed -n "s/.*server's end: //p" /link.log)
at_device=$(sed -n "s/.*device's end: //p" /link.log)
$at_server probe echo 7000 >/dev/null &
$at_device probe sink 7001 >/sink.log &
sleep 0.5
echo begin
$at_device probe ping 198.18.0.1 7000 COUNT
$at_server probe blast 198.18.0.2 7001 BLAST 1400 0
wait $!
echo sink $(tail -n 1 /sink.log)
$at_server /usr/sbin/tc -s qdisc show dev edgedraft0 | sed 's/^/qdisc /'
export at_server at_device
TC_LIB_DIR=$(echo /tmp/*)
export TC_LIB_DIR
for event in down up moved; do
  /usr/sbin/sh /$event.sh
  echo event $event $($at_device probe ping 198.18.0.1 7000 3 | grep -c lost)
done
echo end
poweroff -f
END
sed -i "s/COUNT/$count/; s/BLAST/$blast/" "$root/init"
chmod +x "$root/init"
(cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >"$work/initrd"
timeout 600 qemu-system-x86_64 -accel tcg -icount shift=1,align=off,sleep=off -m 256 -display none \
  -nodefaults -serial stdio -no-reboot -kernel "$kernel/vmlinuz" -initrd "$work/initrd" \
  -append "console=ttyS0 quiet panic=-1 random.trust_cpu=on" </dev/null |
  tr -d '\r' | sed -n '/^begin$/,/^end$/p'
