//! `CommConfig::watch`: each change of state is reported once, in order.

use std::mem::discriminant;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use typed_nccl::{
    AbortHandle, Change, CommConfig, Communicator, Device, Error, Host, Result, Seat, Sum, Work,
    World, tag,
};

use super::{Anywhere, ranks};

tag!(Pair);

const DEADLINE: Duration = Duration::from_secs(30);

/// The reports to each rank.
struct Told(Vec<Mutex<Receiver<Change>>>);

impl Told {
    /// One watch per rank.
    fn of(n: usize) -> (Self, Vec<Sender<Change>>) {
        let (tell, told) = (0..n).map(|_| channel()).unzip::<_, _, Vec<_>, Vec<_>>();
        (Self(told.into_iter().map(Mutex::new).collect()), tell)
    }

    /// All reports to a rank, as text, once its communicator has ended.
    fn all(&self, rank: usize) -> Vec<Change> {
        let told = self.0[rank].lock().expect("nobody panics");
        let mut all = Vec::new();
        loop {
            let change = told.recv_timeout(DEADLINE).expect("the end is told");
            let is_end = matches!(change, Change::Finished | Change::Abort { .. });
            all.push(change);
            if is_end {
                assert!(
                    told.recv_timeout(Duration::from_millis(5)).is_err(),
                    "nothing comes after"
                );
                return all;
            }
        }
    }

    /// Checks that it got these reports, one after the other.
    #[track_caller]
    fn is(&self, rank: usize, names: &[&str]) -> Vec<Change> {
        let all = self.all(rank);
        assert_eq!(all.iter().map(name).collect::<Vec<_>>(), names, "rank {rank}: {all:?}");
        all
    }
}

fn name(change: &Change) -> &'static str {
    match change {
        Change::Ready { .. } => "ready",
        Change::Failed(_) => "failed",
        Change::Revocation(_) => "revoked",
        Change::Recovered(_) => "recovered",
        Change::Finished => "finished",
        Change::Abort { .. } => "aborted",
        _ => "another",
    }
}

fn told_to(tell: Vec<Sender<Change>>) -> impl Fn(usize) -> CommConfig {
    move |rank| {
        let tell = tell[rank].clone();
        let watch = move |change: &Change| drop(tell.send(change.clone()));
        CommConfig::builder().deadline(DEADLINE).watch(watch).build()
    }
}

fn adds_up<W: World>(comm: &Communicator<W>) -> Result<()> {
    let mut x = comm.device().from_slice(&[1_u64])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    assert_eq!(x.to_vec()?, [comm.size() as u64]);
    Ok(())
}

fn until_it_fails<W: World>(comm: &Communicator<W>) -> Error {
    loop {
        if let Err(error) = adds_up(comm) {
            return error;
        }
    }
}

/// Runs a body on watched ranks, and returns their reports.
fn watched(
    n: usize,
    body: impl Fn(Communicator<Anywhere>) -> Result<()> + Send + Sync + 'static,
) -> Told {
    let (told, tell) = Told::of(n);
    ranks(n, told_to(tell), body);
    told
}

#[test]
fn a_life_is_told_from_its_beginning_to_its_end() {
    let told = watched(2, |comm| {
        adds_up(&comm)?;
        comm.finish()
    });
    for rank in 0..2 {
        let all = told.is(rank, &["ready", "finished"]);
        assert!(matches!(all[0], Change::Ready { rank: own, size: 2 } if own.index() == rank));
    }
}

/// Waits for work when it is dropped, and panics after that.
struct Waits(Arc<Mutex<Option<Work<Anywhere>>>>, Sender<()>);

impl Drop for Waits {
    fn drop(&mut self) {
        let work = self.0.lock().expect("nobody panics").take();
        work.expect("it is set").wait().expect("the work is over");
        self.1.send(()).expect("it is received");
        panic!("a destructor that fails");
    }
}

/// What a watch holds is dropped with the last use of its communicator, which may be a wait.
#[test]
fn what_a_watch_holds_may_wait_for_the_stream_when_it_is_dropped() {
    let (dropped, hears) = channel();
    let work = Arc::new(Mutex::new(None));
    let waits = Waits(work.clone(), dropped);
    let watch = Mutex::new(Some(move |_: &Change| _ = &waits));
    let config = move |_| {
        let watch = watch.lock().expect("nobody panics").take().expect("there is one rank");
        CommConfig::builder().watch(watch).build()
    };
    ranks(1, config, move |comm| {
        let other = Seat::local(1).remove(0).init(Host::any(0)?)?;
        let (stream, mut x) = (comm.device().stream()?, other.device().from_slice(&[1_u64])?);
        comm.on(&stream).all_reduce_in_place(&mut x, Sum)?;
        other.on(&stream).all_reduce_in_place(&mut x, Sum)?;
        *work.lock().expect("nobody panics") = Some(other.on(&stream).submitted()?);
        stream.sync()?;
        comm.finish()?;
        stream.sync()?;
        other.finish()
    });
    hears.recv_timeout(DEADLINE).expect("it is dropped");
}

#[test]
fn one_that_is_dropped_ends_in_the_background() {
    let told = watched(2, |comm| {
        comm.barrier()?;
        drop(comm);
        Ok(())
    });
    (0..2).for_each(|rank| drop(told.is(rank, &["ready", "finished"])));
}

#[test]
fn a_death_and_what_follows_is_told() {
    let told = watched(3, |mut comm| {
        comm.barrier()?;
        if comm.rank().index() == 1 {
            comm.abort_because("the disk is full");
            return Ok(());
        }
        let error = until_it_fails(&comm);
        assert!(error.is_peer_failure(), "{error}");
        comm.recover()?;
        adds_up(&comm)?;
        comm.barrier()?;
        if comm.rank().index() == 0 {
            comm.abort();
            return Ok(());
        }
        until_it_fails(&comm);
        comm.recover()?;
        comm.finish()
    });
    let all = told.is(0, &["ready", "failed", "recovered", "aborted"]);
    assert!(
        matches!(&all[1], Change::Failed(Error::PeerFailed(failed)) if failed.lost[0].index() == 1)
    );
    assert!(matches!(&all[2], Change::Recovered(recovery) if recovery.lost.len() == 1));
    let all = told.is(1, &["ready", "aborted"]);
    assert!(all[1].to_string().contains("the disk is full"), "{}", all[1]);
    told.is(2, &["ready", "failed", "recovered", "failed", "recovered", "finished"]);
}

#[test]
fn a_revocation_is_no_failure() {
    let told = watched(3, |comm| {
        comm.barrier()?;
        let comm = match comm.rank().index() {
            0 => comm.revoke_because("a new node has come"),
            _ => {
                until_it_fails(&comm);
                comm.revoke()
            }
        };
        if comm.rank().index() == 2 {
            comm.abort();
            return Ok(());
        }
        comm.shrink(&[2])?.finish()
    });
    for rank in 0..2 {
        let all = told.is(rank, &["ready", "revoked", "recovered", "finished"]);
        assert!(matches!(&all[1], Change::Revocation(revoked) if revoked.by.index() == 0));
    }
    told.is(2, &["ready", "revoked", "aborted"]);
}

/// Threads that wait for the same communicator's work find its fault together.
#[test]
fn what_many_find_is_told_once() {
    for _ in 0..30 {
        let told = watched(3, |mut comm| {
            // All are present before it is over.
            comm.barrier()?;
            let mut threads = Vec::new();
            for _ in 0..2 {
                let (stream, mut x) =
                    (comm.device().stream()?, comm.device().from_slice(&[1_u64])?);
                // Another rank may know already.
                let _ = comm.on(&stream).all_reduce_in_place(&mut x, Sum);
                threads.push(std::thread::spawn(move || drop((x.to_vec(), stream))));
            }
            if comm.rank().index() == 0 {
                let handles = [comm.abort_handle(), comm.abort_handle()];
                let revoke =
                    |handle: AbortHandle| std::thread::spawn(move || handle.revoke("enough"));
                // A handle follows the communicator, so it would revoke the next one.
                for handle in handles.map(revoke) {
                    handle.join().expect("it does not panic");
                }
            }
            while comm.barrier().is_ok() {}
            comm.recover()?;
            for thread in threads {
                thread.join().expect("it does not panic");
            }
            comm.finish()
        });
        (0..3).for_each(|rank| {
            let all = told.all(rank);
            let names: Vec<_> = all.iter().map(name).collect();
            assert_eq!(names, ["ready", "revoked", "recovered", "finished"], "{all:?}");
        });
    }
}

#[test]
fn a_watch_that_panics_is_told_the_next_change() {
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    let watch = move |change: &Change| {
        let _ = tell.lock().map(|tell| tell.send(discriminant(change)));
        std::panic::resume_unwind(Box::new("bang"));
    };
    let config = CommConfig::builder().watch(watch).build();
    ranks(1, move |_| config.clone(), |comm| comm.finish());
    assert_eq!(told.iter().count(), 2);
}

/// A change made by the watch itself is reported after the one that it is handling.
#[test]
fn a_watch_may_end_what_it_watches() {
    let handle = Arc::new(Mutex::new(None::<AbortHandle>));
    let (tell, told) = channel();
    let inside = Mutex::new(());
    let ends = handle.clone();
    let watch = move |change: &Change| {
        let _one = inside.try_lock().expect("one at a time");
        let _ = tell.send(name(change));
        if let Some(handle) = ends.lock().expect("nobody panics").take() {
            assert!(handle.abort("it has failed"));
        }
    };
    let config = CommConfig::builder().watch(watch).deadline(Duration::from_millis(20)).build();
    ranks(2, move |rank| if rank == 0 { config.clone() } else { CommConfig::default() }, {
        move |mut comm| {
            comm.within(DEADLINE).barrier()?;
            if comm.rank().index() == 0 {
                *handle.lock().expect("nobody panics") = Some(comm.abort_handle());
                comm.barrier().expect_err("the other one does not come");
                comm.abort();
            } else {
                until_it_fails(&comm);
                comm.abort();
            }
            Ok(())
        }
    });
    assert_eq!(told.iter().collect::<Vec<_>>(), ["ready", "failed", "aborted"]);
}

#[test]
fn a_child_has_a_watch_of_its_own() {
    let told = watched(2, |mut comm| {
        comm.split::<Pair>(0, 0)?.finish()?;
        let (tell, told) = channel();
        let config = CommConfig::builder().watch(move |change: &Change| {
            let _ = tell.send(name(change));
        });
        comm.split_with::<Pair>(0, 0, config.build())?.finish()?;
        assert_eq!(told.iter().collect::<Vec<_>>(), ["ready", "finished"]);
        comm.finish()
    });
    (0..2).for_each(|rank| drop(told.is(rank, &["ready", "finished"])));
}
