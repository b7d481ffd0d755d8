//! The addresses of this process.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use super::message::MOST_ADDRESSES;

/// The length of a listener's queue.
const BACKLOG: i32 = 4096;

pub(super) const IFACE: &str = "TYPED_NCCL_IFACE";

/// Listens at `address`, or at a free port of all addresses.
pub(super) fn listen(address: Option<SocketAddr>) -> io::Result<TcpListener> {
    address.map_or_else(|| listen_everywhere(0), listen_at)
}

/// Listens at `port` of all addresses.
pub(super) fn listen_everywhere(port: u16) -> io::Result<TcpListener> {
    match listen_at((Ipv6Addr::UNSPECIFIED, port).into()) {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            listen_at((Ipv4Addr::UNSPECIFIED, port).into())
        }
        outcome => outcome,
    }
}

fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
        socket.set_only_v6(false)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(socket.into()))
}

/// Sets the options of a connection.
pub(super) fn set_up(stream: &TcpStream, heartbeat: Duration) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    // The kernel counts whole seconds.
    let interval = heartbeat.max(Duration::from_secs(1));
    socket
        .set_tcp_keepalive(&TcpKeepalive::new().with_time(interval * 2).with_interval(interval))?;
    Ok(())
}

/// The canonical form: an IPv4 address that is mapped to IPv6 becomes IPv4.
pub(super) fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The addresses of the interface that the user chose.
pub(super) fn chosen() -> Result<Option<Vec<IpAddr>>, String> {
    let Some(name) = std::env::var_os(IFACE).filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    let name = name.to_string_lossy().into_owned();
    let all = interfaces();
    let addresses: Vec<IpAddr> =
        all.iter().filter(|(interface, _)| *interface == name).map(|(_, ip)| *ip).collect();
    if !addresses.is_empty() {
        return Ok(Some(addresses));
    }
    let mut names: Vec<&str> = all.iter().map(|(interface, _)| interface.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    Err(format!(
        "{IFACE}={name}: there is no such interface with an address; there are {}",
        names.join(", ")
    ))
}

/// The addresses at which others reach a listener on all of them, loopback last.
pub(super) fn own(port: u16) -> Vec<SocketAddr> {
    let mut ips: Vec<IpAddr> = interfaces().into_iter().map(|(_, ip)| ip).collect();
    ips.sort_by_key(|ip| (ip.is_loopback(), ip.is_ipv6()));
    if ips.is_empty() {
        ips.push(Ipv4Addr::LOCALHOST.into());
    }
    ips.truncate(MOST_ADDRESSES / 2);
    ips.into_iter().map(|ip| SocketAddr::new(ip, port)).collect()
}

/// The interfaces that are up, with each of their addresses but IPv6 link-local ones.
fn interfaces() -> Vec<(String, IpAddr)> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `list` is valid for writes of a pointer.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut next = list;
    // SAFETY: `next` is null or an entry of the list, which lives until it is freed below.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        if entry.ifa_flags & libc::IFF_UP as u32 == 0 {
            continue;
        }
        // SAFETY: an entry's address is null or as long as its family requires.
        let Some(ip) = (unsafe { ip(entry.ifa_addr) }) else { continue };
        // SAFETY: an entry's name is a string that ends with a zero.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        found.push((name.to_string_lossy().into_owned(), ip));
    }
    // SAFETY: `list` is from `getifaddrs`, and no reference to an entry is left.
    unsafe { libc::freeifaddrs(list) };
    found
}

/// The address; `None` if it is IPv6 link-local or of another family.
///
/// # Safety
/// `address` is null or points to an address as long as its family requires.
unsafe fn ip(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the caller passes null or an address.
    let family = i32::from(unsafe { address.as_ref() }?.sa_family);
    match family {
        libc::AF_INET => {
            // SAFETY: addresses of this family have this layout.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr))))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            (!ip.is_unicast_link_local()).then_some(IpAddr::V6(ip))
        }
        _ => None,
    }
}
