//! Linux TUN/TAP ports with the virtio-net header.
