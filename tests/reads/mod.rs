//! Plans that read peers' windows, on the host. `tests/gpu` runs the same on GPUs.

use typed_nccl::plan::Timing;
use typed_nccl::{CommConfig, Error, Host, Result, plan};

use crate::ranks::spmd;

pub(crate) mod body;

#[test]
fn every_plan_leaves_what_it_claims() {
    for n in [1, 2, 3, 4, 8] {
        spmd::<Host>(n, |place| {
            let config = CommConfig::builder().signals(3).build();
            let mut comm = place.init_with(config)?;
            let rank = comm.rank().index() as u64;
            body::every_plan(&mut comm, |round| Timing::Shaken(100 * round + rank))?;
            comm.finish()
        })
        .expect("every rank verifies its own numbers");
    }
}

#[test]
fn a_plan_tells_what_it_reads_of_whom() {
    let told = Host::spmd(2, |place| -> Result<String> {
        let mut comm = place.init()?;
        let bound = body::around::bind::<f32, _>(&mut comm, body::around::Params { len: 4 })?;
        let told = bound.describe();
        comm.finish()?;
        Ok(told)
    })
    .expect("two ranks");
    assert!(told[1].contains("y = shown of 0"), "{}", told[1]);
}

/// The neighbour ends before it says that its window may be read: the reader gets its error, and
/// reads nothing that was freed.
#[test]
fn a_rank_that_aborts_ends_its_reader() {
    let outcome = Host::spmd(3, |place| -> Result<Option<Error>> {
        let mut comm = place.init()?;
        let (rank, len) = (comm.rank().index(), 1000);
        // The others may hear of it before they have bound the plan.
        let bound = body::around::bind::<i32, _>(&mut comm, body::around::Params { len });
        let mut around = match bound {
            Ok(bound) => bound,
            Err(error) => {
                comm.abort();
                return Ok(Some(error));
            }
        };
        if rank == 2 {
            drop(around);
            comm.abort();
            return Ok(None);
        }
        let (x, mut y) = (comm.device().zeros::<i32>(len)?, comm.device().zeros::<i32>(len)?);
        let ran = (0..).find_map(|_| {
            let buffers = body::around::Buffers { x: &x, y: &mut y };
            around.run(&comm, buffers).and_then(|()| y.to_vec().map(drop)).err()
        });
        comm.abort();
        Ok(ran)
    })
    .expect("a rank ends as it likes");
    for error in outcome.into_iter().flatten() {
        assert!(matches!(error, Error::PeerFailed(_)), "{error}");
    }
}

/// What the caller enqueues on a stream of its own, before and after a run, is ordered with what
/// peers read in it, although this rank's part of the plan never touches its window.
#[test]
fn a_caller_fills_and_clears_what_is_read_by_streams_of_its_own() {
    spmd::<Host>(3, |place| {
        let mut comm = place.init_with(CommConfig::builder().signals(2).build())?;
        let (n, rank, len) = (comm.size(), comm.rank().index(), 1000);
        let mut shown = shown::bind(&mut comm, shown::Params { len })?;
        let (mut given, mut y) = (comm.window::<i32>(len)?, comm.device().zeros::<i32>(len)?);
        let mine = comm.device().stream()?;
        for round in 0..4 {
            shown.set_timing(Timing::Shaken(10 * round + rank as u64));
            let number = |rank: usize| 100 * round as i32 + rank as i32;
            let own = number(rank);
            mine.launch(&mut given, move |given, ()| given.fill(own))?;
            shown.run(&comm, shown::Buffers { given: &given, y: &mut y })?;
            mine.launch(&mut given, |given, ()| given.fill(-1))?;
            assert_eq!(y.to_vec()?, vec![number((rank + 1) % n); len]);
        }
        comm.finish()
    })
    .expect("three ranks, and no hazard");
}

plan! {
    /// The next rank's window, which the caller fills.
    shown(n: Ranks, len: usize) {
        in window given: [i32; len];
        out y: [i32; len];
        signal ready, done;
        signal ready to (rank - 1) % n;
        wait ready from (rank + 1) % n;
        y = given of (rank + 1) % n;
        signal done to (rank + 1) % n;
        wait done from (rank - 1) % n;
    }
}

plan! {
    /// Nothing says when the caller may fill the window again, so it runs once.
    #[once]
    once(n: Ranks in 2.., len: usize) {
        in window given: [i32; len];
        out y: [i32; len];
        signal ready;
        signal ready to (rank - 1) % n;
        wait ready from (rank + 1) % n;
        y = given of (rank + 1) % n;
    }
}

/// What the caller does to a window while a peer reads it is found, whatever the timing.
#[test]
fn a_caller_that_fills_what_is_read_is_told() {
    let outcome = Host::spmd(2, |place| -> Result<Option<Error>> {
        let mut comm = place.init()?;
        let (rank, len) = (comm.rank().index(), 8);
        let mut given = comm.window::<i32>(len)?;
        let mut y = comm.device().zeros::<i32>(len)?;
        let once = once::bind(&mut comm, once::Params { len })?;
        once.run(&comm, once::Buffers { given: &given, y: &mut y })?;
        // Rank 1 says nowhere that it has read.
        let mut found = None;
        while found.is_none() {
            if rank == 0 {
                found = given.copy_from(&vec![1; len]).err();
            }
            found = found.or_else(|| comm.barrier().err());
        }
        comm.abort();
        Ok(found)
    })
    .expect("both ranks are told");
    let told = |error: &Option<Error>| matches!(error, Some(Error::Hazard(_)));
    assert!(outcome.iter().any(told), "{outcome:?}");
    let text = outcome.iter().flatten().find(|error| matches!(error, Error::Hazard(_)));
    let text = text.expect("one of them").to_string();
    let mends = [
        "if the read shall see what is written, call `comm.signal(1)` after the write",
        "if what was there before, `comm.wait_signal(1)` before the write",
    ];
    assert!(text.contains("rank 1 reads at"), "{text}");
    assert!(mends.iter().all(|mend| text.contains(mend)), "{text}");
}
