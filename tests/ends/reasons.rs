//! Why a rank left, as reported to the others.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use typed_nccl::{Communicator, Device, Error, Host, Result, Scoped, Sum};

use super::common::{SOON, seats, watched};
use super::mine::{Mine, says};

/// The others' description.
const DISK: &str = "rank 1 left: it returned an error: disk full";

/// Rank 1 fails once all are connected. Checks the error that the others get from `wait`.
fn disk_full(wait: impl for<'id> Fn(Communicator<Host<Scoped<'id>>>) -> Result<()> + Sync) {
    let failed = Host::spmd(3, |place| -> Result<(), Mine> {
        let comm = place.init()?;
        comm.barrier()?;
        if comm.rank().index() == 1 {
            // Drops the communicator before anything has seen the error.
            return Err(Mine::Disk);
        }
        // The first rank to get the error passes it on, so the other may get it from there.
        let error = wait(comm).expect_err("rank 1 is gone");
        assert!(error.is_peer_failure() && error.to_string().ends_with(DISK), "{error}");
        Ok(())
    });
    assert!(matches!(failed, Err(Mine::Disk)), "{failed:?}");
}

#[test]
fn an_error_is_told_to_who_waits_for_an_operation() {
    watched(|| {
        disk_full(|comm| {
            let mut x = comm.device().zeros::<f32>(4)?;
            comm.all_reduce_in_place(&mut x, Sum)?;
            x.to_vec().map(drop)
        });
    });
}

#[test]
fn an_error_is_told_to_who_waits_on_the_host() {
    watched(|| {
        disk_full(|comm| comm.barrier());
        disk_full(|comm| comm.gather_values(&1_u32).map(drop));
    });
}

#[test]
fn an_error_before_the_communicator_is_told_to_who_connects() {
    watched(|| {
        let failed = Host::spmd(3, |place| -> Result<(), Mine> {
            if place.rank().index() == 1 {
                return Err(Mine::Disk);
            }
            let error = place.init().expect_err("rank 1 does not come");
            says(&error, &[1], DISK);
            Ok(())
        });
        assert!(matches!(failed, Err(Mine::Disk)));
    });
}

#[test]
fn an_error_while_it_connects_is_told() {
    watched(|| {
        let failed = Host::spmd(2, |place| -> Result<(), Mine> {
            let (seat, device) = place.into_parts();
            let starting = seat.start(device)?;
            if starting.rank().index() == 1 {
                return Err(Mine::Disk);
            }
            let until = Instant::now() + SOON;
            // Rank 1 may be gone before rank 0 gets here, or after it has joined.
            match starting.ready().wait_until(until) {
                Ok(comm) => says(&comm.barrier().expect_err("gone"), &[1], DISK),
                Err(error) => says(&error, &[1], DISK),
            }
            Ok(())
        });
        assert!(matches!(failed, Err(Mine::Disk)));
    });
}

#[test]
fn a_connect_inside_a_closure_is_told() {
    watched(|| {
        for starts in [false, true] {
            let [first, second] = seats();
            let (told, hears) = channel();
            let stream = Device::stream(&Host::local().expect("a device")).expect("a stream");
            let work = move |(), ()| {
                let device = Host::any(0).expect("a device");
                let refused = match starts {
                    true => first
                        .start(device)
                        .and_then(|comm| comm.ready().wait_until(Instant::now() + SOON)),
                    false => first.init(device),
                };
                told.send(refused.map(drop)).expect("heard");
            };
            stream.launch((), work).expect("launched");
            // All have joined when rank 0 starts, so this may be ready before rank 0 is refused.
            let comm = second.init(Host::any(1).expect("a device"));
            let error = comm.and_then(|comm| comm.barrier()).expect_err("rank 0 does not");
            assert!(error.is_peer_failure(), "{error}");
            assert!(error.to_string().contains("given to `stream.launch` may not"), "{error}");
            let refused = hears.recv().expect("it ran").expect_err("it waits");
            assert!(matches!(refused, Error::WaitInLaunch(_)), "{refused}");
        }
    });
}

#[test]
fn a_panic_is_told_with_its_message() {
    watched(|| {
        let (told, hears) = channel();
        let ranks = catch_unwind(AssertUnwindSafe(|| {
            typed_nccl::spmd::<Host>(2, |place| {
                let comm = place.init()?;
                comm.barrier()?;
                let rank = comm.rank().index();
                assert!(rank == 0, "rank {rank} has a bug");
                let error = comm.barrier().expect_err("rank 1 is gone");
                told.send(error).expect("heard");
                Ok(())
            })
        }));
        assert!(ranks.is_err());
        let why = "rank 1 left: its thread panicked: rank 1 has a bug";
        says(&hears.try_recv().expect("told"), &[1], why);
    });
}

/// All of its communicators report the same.
#[test]
fn an_error_is_told_on_every_communicator() {
    typed_nccl::tag!(Half);
    watched(|| {
        let failed = Host::spmd(2, |place| -> Result<(), Mine> {
            let mut world = place.init()?;
            let half = world.split::<Half>(0, 0)?;
            half.barrier()?;
            if world.rank().index() == 1 {
                return Err(Mine::Disk);
            }
            says(&half.barrier().expect_err("rank 1 is gone"), &[1], DISK);
            says(&world.barrier().expect_err("rank 1 is gone"), &[1], DISK);
            Ok(())
        });
        assert!(matches!(failed, Err(Mine::Disk)));
    });
}

/// A body that continues without its communicator has not failed: the others get that reason, and
/// do not wait for its end.
#[test]
fn a_body_that_goes_on_is_told_of_soon() {
    watched(|| {
        let (told, hears) = channel::<()>();
        let hears = Mutex::new(hears);
        typed_nccl::spmd::<Host>(2, |place| {
            let comm = place.init()?;
            comm.barrier()?;
            if comm.rank().index() == 1 {
                drop(comm);
                let heard = hears.lock().expect("not poisoned").recv_timeout(SOON);
                assert!(heard.is_ok(), "the other waits for the body's end");
                return Ok(());
            }
            let why = "rank 1 left: its communicator was dropped without `finish`";
            says(&comm.barrier().expect_err("rank 1 is gone"), &[1], why);
            told.send(()).expect("heard");
            Ok(())
        })
        .expect("both go on");
    });
}

thread_local! {
    /// Dropped when a rank's thread is over.
    static OVER: RefCell<Option<Sender<()>>> = const { RefCell::new(None) };
}

/// Rank 2 leaves, then rank 1, then rank 0 waits for both in an operation.
#[test]
fn every_rank_that_is_lost_is_named_with_the_first_cause() {
    watched(|| {
        let ((one, after_one), (two, after_two)) = (channel(), channel());
        let (after_one, after_two) = (Mutex::new(after_one), Mutex::new(after_two));
        let (one, two) = (Mutex::new(Some(one)), Mutex::new(Some(two)));
        let over = |end: &Mutex<Option<Sender<()>>>| OVER.set(end.lock().expect("whole").take());
        let wait = |end: &Mutex<Receiver<()>>| {
            let _ = end.lock().expect("whole").recv_timeout(SOON);
        };
        let failed = Host::spmd(3, |place| -> Result<(), Mine> {
            let comm = place.init()?;
            comm.barrier()?;
            match comm.rank().index() {
                0 => {
                    wait(&after_one);
                    let why = "ranks 1 and 2 left: rank 2: it returned an error: disk full; rank 1: it returned an error: tired";
                    let mut x = comm.device().zeros::<f32>(4)?;
                    let told = comm.all_reduce_in_place(&mut x, Sum).and_then(|()| x.to_vec());
                    says(&told.expect_err("two are gone"), &[1, 2], why);
                    Ok(())
                }
                1 => {
                    over(&one);
                    wait(&after_two);
                    Err(Mine::Tired)
                }
                _ => {
                    over(&two);
                    Err(Mine::Disk)
                }
            }
        });
        assert!(matches!(failed, Err(Mine::Disk)), "{failed:?}");
    });
}
