//! Communicators suspended and resumed, on any device.

use std::sync::Barrier;

use typed_nccl::{Communicator, Device, Error, Result, Sum, Suspended, World};

/// Checks that the ranks of `comm` add up.
pub(crate) fn adds_up<W: World>(comm: &Communicator<W>) -> Result<()> {
    let mut x = comm.device().from_slice(&[comm.rank().index() as u64, 1])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    let n = comm.size() as u64;
    assert_eq!(x.to_vec()?, [n * (n - 1) / 2, n]);
    Ok(())
}

/// Whether the memory is NCCL's, which is less while it is suspended.
fn tells<W: World>(
    used: &Communicator<W>,
    before: typed_nccl::MemoryStats,
) -> Result<typed_nccl::MemoryStats> {
    let now = used.memory_stats()?;
    assert_eq!((now.held, now.suspendable), (now.total, before.suspendable), "{now}");
    assert_eq!(now.total, now.suspendable + now.persistent, "{now}");
    Ok(now)
}

/// Memory is filled, windows are registered and used; all of it is intact after two suspensions.
pub(crate) fn what_there_was_is_there_again<W: World>(mut comm: Communicator<W>) -> Result<()> {
    let own = comm.rank().index() as u32;
    let n = comm.size() as u32;
    let buffer = comm.device().from_slice(&[own + 7; 1000])?;
    let tripled = comm.pre_mul_sum(3_u64)?;
    let window = match comm.window::<u32>(1000) {
        Ok(mut window) => {
            window.copy_from(&[own; 1000])?;
            Some(window)
        }
        Err(Error::Unsupported(_)) => None,
        Err(error) => return Err(error),
    };
    adds_up(&comm)?;
    let passes = |comm: &mut Communicator<W>| -> Result<()> {
        let mut sums = comm.device().from_slice(&[own + 7; 1000])?;
        comm.all_reduce(&buffer, &mut sums, Sum)?;
        let expected = (0..n).map(|rank| rank + 7).sum::<u32>();
        assert_eq!(sums.to_vec()?, [expected; 1000]);
        let mut x = comm.device().from_slice(&[1_u64])?;
        comm.all_reduce_in_place(&mut x, &tripled)?;
        assert_eq!(x.to_vec()?, [3 * u64::from(n)]);
        let mut from_left = comm.device().zeros::<u32>(1)?;
        let left = (own + n - 1) % n;
        if n > 1 {
            let (before, after) = (comm.ring(-1), comm.ring(1));
            comm.group(|g| {
                g.send(buffer.slice(0..1), after)?;
                g.recv(&mut from_left, before)
            })?;
            assert_eq!(from_left.to_vec()?, [left + 7]);
        }
        if let Some(window) = &window {
            // Its contents, and the left neighbour's put after them.
            assert_eq!(window.slice(0..500).to_vec()?, [own; 500]);
            match comm.put_signal(window.slice(0..1), comm.ring(1), window.at(999)) {
                Ok(()) => {
                    comm.wait_signal(comm.ring(-1))?;
                    assert_eq!(window.slice(999..1000).to_vec()?, [left]);
                }
                Err(Error::Unsupported(_)) => {}
                Err(error) => return Err(error),
            }
        }
        comm.sync(comm.stream())
    };
    passes(&mut comm)?;
    let before = comm.memory_stats()?;
    for _ in 0..2 {
        let used = tells(&comm, before)?;
        let suspended: Communicator<W, Suspended> = comm.suspend()?;
        let now = suspended.memory_stats()?;
        assert_eq!((now.held, now.total), (used.total - used.suspendable, used.total), "{now}");
        assert_eq!(buffer.to_vec()?, [own + 7; 1000]);
        if let Some(window) = &window {
            assert_eq!(window.slice(0..500).to_vec()?, [own; 500]);
        }
        comm = suspended.resume()?;
        passes(&mut comm)?;
    }
    if let Some(window) = window {
        comm.close(window)?;
    }
    comm.finish()
}

/// The last rank dies while all are suspended: the others learn of it when they resume, and
/// continue.
pub(crate) fn a_rank_dies_while_it_is_suspended<W: World>(
    mut comm: Communicator<W>,
    all: &Barrier,
) -> Result<()> {
    let (own, n) = (comm.rank().index(), comm.size());
    let kept = comm.device().from_slice(&[own as u32; 8])?;
    adds_up(&comm)?;
    let suspended = comm.suspend()?;
    all.wait();
    if own == n - 1 {
        suspended.abort_because("it needs its memory");
        return Ok(());
    }
    let failed = suspended.try_resume().expect_err("a rank is gone");
    assert!(failed.error.is_peer_failure(), "{}", failed.error);
    assert!(failed.error.to_string().contains("it needs its memory"), "{}", failed.error);
    comm = failed.value.shrink(&[])?;
    assert_eq!((comm.rank().index(), comm.size()), (own, n - 1));
    assert_eq!(kept.to_vec()?, [own as u32; 8]);
    adds_up(&comm)?;
    // It can be suspended too.
    let comm = comm.suspend()?.resume()?;
    adds_up(&comm)?;
    comm.finish()
}

/// The last rank dies instead of suspending: the others recover.
pub(crate) fn a_rank_dies_instead<W: World>(comm: Communicator<W>) -> Result<()> {
    let (own, n) = (comm.rank().index(), comm.size());
    let worked = adds_up(&comm);
    if own == n - 1 {
        worked?;
        comm.abort();
        return Ok(());
    }
    // The last rank may be done, and gone, before this one.
    if let Err(error) = worked {
        assert!(error.is_peer_failure(), "{error}");
    }
    let failed = comm.try_suspend().expect_err("a rank is gone");
    assert!(failed.error.is_peer_failure(), "{}", failed.error);
    let mut comm = failed.value;
    let recovery = comm.recover()?;
    assert_eq!(recovery.lost.len(), 1, "{recovery}");
    adds_up(&comm)?;
    comm.finish()
}

/// Of two ranks, rank 1 does not call until rank 0's deadline has passed.
pub(crate) fn a_deadline_passes<W: World>(comm: Communicator<W>, both: &Barrier) -> Result<()> {
    // A timeout on one rank fails a call that another has not returned from.
    both.wait();
    if comm.rank().index() == 0 {
        let outcome = comm.try_suspend();
        both.wait();
        let failed = outcome.expect_err("the others do not come");
        let text = failed.error.to_string();
        assert!(matches!(failed.error, Error::Timeout(_)), "{text}");
        assert!(text.contains("suspend") && text.contains("rank 1"), "{text}");
        failed.value.abort();
    } else {
        both.wait();
        comm.abort();
    }
    Ok(())
}
