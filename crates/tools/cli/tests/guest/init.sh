#!/bin/busybox sh
# The guest's first program. It brings up the network device and then does what the serial console says, a line at a time;
# after each line it says how that ended.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
exec </dev/ttyS0 >/dev/ttyS0 2>&1
stty -echo
for module in $(cat /modules/order); do
    insmod "/modules/$module.ko" || echo "cannot load $module"
done
ip link set lo up
# Nobody else is on this link, and an address that is being tried out cannot be used for a second.
echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad
ip link set eth0 up
ip addr add 10.97.0.1/24 dev eth0
ip addr add fd97::1/64 dev eth0
printf '\n@@ ready\n'
while read -r line; do
    # A shell of its own, so that no line can end this one.
    sh -c "$line"
    printf '\n@@ %s\n' $?
done
