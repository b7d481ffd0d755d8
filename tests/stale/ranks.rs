//! Ranks from before a recovery, on any device.

use typed_nccl::{
    Buffer, Cart, Communicator, Device, Error, Rank, Recovery, Result, Root, Signals, Sum, World,
    tag,
};

tag!(Half);

/// The last rank leaves, and the others continue.
fn without_the_last<W: World>(comm: &mut Communicator<W>) -> Result<Recovery> {
    while comm.health().is_ok() {
        // The last rank is gone, or about to be.
        let _ = comm.barrier();
    }
    comm.recover()
}

/// The error names the old rank and the remedy.
fn stale(outcome: Result<()>, asked: Rank) {
    says_stale(outcome, asked, &["is of before", "numbered anew", "recovery.now(rank)"]);
}

fn says_stale(outcome: Result<()>, asked: Rank, parts: &[&str]) {
    let error = outcome.expect_err("a rank of before");
    let text = error.to_string();
    match &error {
        Error::StaleRank(stale) => assert_eq!(stale.asked, asked.index(), "{text}"),
        _ => panic!("{text}"),
    }
    for part in [parts, &["stale/ranks.rs"]].concat() {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

/// Every method that takes a rank refuses `old`, and accepts it as a number.
fn refuses<W: World>(comm: &mut Communicator<W>, old: Rank) -> Result<()> {
    let own = comm.rank();
    let (a, mut b) = (comm.device().zeros::<u32>(4)?, comm.device().zeros::<u32>(4)?);
    stale(comm.send(&a, old), old);
    stale(comm.recv(&mut b, old), old);
    for computed in [(old + 1) % comm.size(), old + 1 - 1] {
        stale(comm.send(&a, computed), computed);
    }
    let sent = comm.group(|g| {
        g.send(&a, old)?;
        g.recv(&mut b, old)
    });
    stale(sent, old);
    stale(comm.broadcast_value(&1, old).map(drop), old);
    let kept: Root<&Buffer<u32, W::Device>> = Root::at(old);
    // A rank names itself by a number, and the operation is its own.
    comm.group(|g| {
        g.send(&a, own.index())?;
        g.recv(&mut b, own)
    })?;
    assert_eq!(comm.broadcast_value(&7, 0)?, 7);
    if comm.size() == 1 {
        stale(comm.broadcast_in_place(&mut b, old), old);
        stale(comm.broadcast(kept, &mut b), old);
        stale(comm.reduce(&a, Sum, old).map(drop), old);
        stale(comm.gather(&a, old).map(drop), old);
        stale(comm.scatter(kept, &mut b), old);
        let _: Result<()> = comm.sync(comm.stream());
    }
    comm.broadcast_in_place(&mut b, 0)?;
    comm.broadcast(Root::here_or_at(Some(&a).filter(|_| own.index() == 0), 0), &mut b)?;
    comm.sync(comm.stream())
}

/// The same of windows and signals.
fn windows_refuse<W: World>(comm: &mut Communicator<W>, old: Rank) -> Result<()> {
    let (even, uneven) = (comm.window::<u32>(4)?, comm.window_uneven::<u32>(4)?);
    assert_eq!((uneven.len_at(old), uneven.len_at(comm.rank()), uneven.len_at(0)), (0, 4, 4));
    stale(comm.peer_ptr(&even, old).map(drop), old);
    stale(comm.put_signal(even.slice(0..1), old, even.at(0)), old);
    stale(comm.signal(old), old);
    stale(comm.wait_signal(old), old);
    let mut signals = Signals::new();
    signals.expect(comm.rank()).expect(old);
    // The next wait takes it.
    comm.signal(comm.rank())?;
    stale(comm.wait_signals(&signals), old);
    // A number and the rank with that number are the same.
    let mut signals = Signals::new();
    signals.expect(comm.rank().index()).expect(comm.rank());
    comm.signal(comm.rank())?;
    comm.signal(comm.rank().index())?;
    comm.wait_signals(&signals)?;
    comm.sync(comm.stream())?;
    comm.close(even)?;
    comm.close(uneven)?;
    Ok(())
}

pub(crate) fn ranks_of_before_are_refused<W: World>(mut comm: Communicator<W>) -> Result<()> {
    let (n, own) = (comm.size(), comm.rank());
    let (first, last) = (comm.peer(0)?, comm.peer(n - 1)?);
    let line = Cart::over(&comm, [n], true)?;
    if own == last {
        comm.abort();
        return Ok(());
    }
    let recovery = without_the_last(&mut comm)?;
    // Its number is unchanged, but it is a different rank: the holder of the old one does not know.
    let now = comm.rank();
    assert_eq!((now.index(), own.index()), (own.index(), own.index()));
    assert_ne!(now, own);
    assert_eq!(
        (recovery.now(own), recovery.now(last), recovery.before(now)),
        (Some(now), None, Some(own))
    );
    assert_eq!((recovery.now(own.index()), recovery.before(own)), (Some(now), None));
    refuses(&mut comm, first)?;
    refuses(&mut comm, line.shift(0, -1).expect("it is periodic"))?;
    let has_windows = comm.window::<u8>(1).is_ok();
    if has_windows {
        windows_refuse(&mut comm, first)?;
    }

    // After the second recovery, ranks from before either one are refused.
    let between = comm.ring(1);
    comm.barrier()?;
    let again = comm.recover()?;
    assert!(again.lost.is_empty(), "{again}");
    assert_eq!((again.now(now), again.now(own)), (Some(comm.rank()), None));
    refuses(&mut comm, first)?;
    refuses(&mut comm, between)?;
    if has_windows {
        windows_refuse(&mut comm, between)?;
    }
    let line = Cart::over(&comm, [n - 1], true)?;
    let (left, right) = (line.shift(0, -1), line.shift(0, 1));
    assert_eq!((left, right), (Some(comm.ring(-1)), Some(comm.ring(1))));
    assert_eq!(comm.world_team().to_world(0), Some(comm.peer(0)?));
    assert_eq!(comm.agree(comm.rank().index())?.rank_of_min(), comm.peer(0)?);
    comm.finish()
}

#[allow(dead_code, reason = "not all devices run it")]
pub(crate) fn ranks_in_errors_are_those_of_now<W: World>(mut comm: Communicator<W>) -> Result<()> {
    let n = comm.size();
    if comm.rank().index() == n - 1 {
        comm.abort();
        return Ok(());
    }
    without_the_last(&mut comm)?;
    let last = comm.peer(n - 2)?;
    let mut short = comm.device().zeros::<u32>(3)?;
    let mut x = comm.device().zeros::<u32>(4)?;
    // One rank's call differs, and all ranks get the error.
    let reduced = match comm.rank() == last {
        true => comm.all_reduce_in_place(&mut short, Sum),
        false => comm.all_reduce_in_place(&mut x, Sum),
    };
    let told = reduced.and_then(|()| comm.sync(comm.stream())).expect_err("they differ");
    match told {
        Error::Mismatch(mismatch) => {
            assert!(mismatch.calls.iter().any(|(rank, _)| *rank == last), "{mismatch}");
        }
        other => panic!("{other}"),
    }
    comm.barrier()?;
    if comm.rank() == last {
        comm.abort();
        return Ok(());
    }
    let lost = loop {
        match comm.barrier() {
            Err(Error::PeerFailed(failed)) => break failed.lost.clone(),
            Err(other) => panic!("{other}"),
            Ok(()) => {}
        }
    };
    assert_eq!(lost, [last]);
    let recovery = comm.recover()?;
    assert_eq!((recovery.lost[0].rank, recovery.now(last)), (last, None));
    comm.finish()
}

#[allow(dead_code, reason = "not all devices run it")]
pub(crate) fn children_number_their_ranks_as_their_parent<W: World>(
    mut comm: Communicator<W>,
) -> Result<()> {
    let last = comm.size() - 1;
    let old = comm.peer(0)?;
    if comm.rank().index() == last {
        comm.abort();
        return Ok(());
    }
    without_the_last(&mut comm)?;
    let child = comm.split::<Half>(0, 0)?;
    // All of the parent's ranks, in its order: the two have the same ranks.
    assert_eq!(child.rank(), comm.rank());
    assert_eq!(child.broadcast_value(&3, comm.peer(0)?)?, 3);
    assert_eq!(comm.broadcast_value(&4, child.peer(0)?)?, 4);
    says_stale(child.broadcast_value(&5, old).map(drop), old, &["had other numbers"]);
    child.finish()?;
    comm.finish()
}
