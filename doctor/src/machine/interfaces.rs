//! Network interfaces and their addresses.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

use super::Interface;

pub(super) fn here() -> Vec<Interface> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: it writes the list's head into ours, which is freed below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Vec::new();
    }
    let mut all: BTreeMap<String, Interface> = BTreeMap::new();
    let mut next = first;
    // SAFETY: entries are valid until the list is freed; the last has no next.
    while let Some(entry) = unsafe { next.as_ref() } {
        // SAFETY: the name of an entry ends with a zero.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
        let up = (libc::IFF_UP | libc::IFF_RUNNING) as u32;
        let interface = all.entry(name.clone()).or_insert_with(|| Interface {
            name,
            is_up: entry.ifa_flags & up == up,
            addresses: Vec::new(),
        });
        interface.addresses.extend(address(entry.ifa_addr));
        next = entry.ifa_next;
    }
    // SAFETY: the list is from `getifaddrs`, and no reference into it is left.
    unsafe { libc::freeifaddrs(first) };
    all.into_values().collect()
}

fn address(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: null, or an address of the kernel's that is valid while the list is.
    let family = unsafe { address.as_ref() }?.sa_family;
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: the family says which type it is; `getifaddrs` aligns it.
            let it = unsafe { &*address.cast::<libc::sockaddr_in>() };
            Some(Ipv4Addr::from(u32::from_be(it.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let it = unsafe { &*address.cast::<libc::sockaddr_in6>() };
            Some(Ipv6Addr::from(it.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}
