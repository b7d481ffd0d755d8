//! Simulated ranks over loopback: the control plane at the size of a machine room.

use crate::{Check, Failure};

pub(crate) fn run(count: &str) -> Check {
    let count: usize =
        count.parse().map_err(|_| Failure::NotMade(format!("`{count}`: a number")))?;
    // Each rank has a connection to its parent, with both ends in this process, and initially one
    // more.
    files(count.saturating_mul(4).saturating_add(256))?;
    let broken = |error: typed_nccl::Error| Failure::Broken(error.to_string());
    let times = typed_nccl::__private::simulate(count).map_err(broken)?;
    println!(
        "{count} ranks: connect {:.2?}, barriers {:.2?}, the death of rank 0 {:.2?}",
        times.connect, times.barriers, times.death
    );
    Ok(())
}

/// Raises the limit of open files as far as possible.
fn files(needed: usize) -> Check {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for the write.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(Failure::NotMade("the limit of open files is not known".to_owned()));
    }
    let needed = needed as libc::rlim_t;
    let max = limit.rlim_max.max(needed);
    let higher = libc::rlimit { rlim_cur: needed.max(limit.rlim_cur), rlim_max: max };
    // SAFETY: `higher` is a whole limit.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const higher) } != 0 {
        let why =
            format!("{needed} open files are needed and {} allowed: ulimit -n", limit.rlim_max);
        return Err(Failure::NotMade(why));
    }
    Ok(())
}
