//! Devices: the Dev trait, loopback, pcap, fault injector, software segmentation.
