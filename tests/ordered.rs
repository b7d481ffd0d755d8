//! Many threads of many ranks, one communicator.

use std::collections::HashSet;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Barrier, Mutex};
use std::thread::scope;
use std::time::Duration;

use typed_nccl::error::SubmissionFault;
use typed_nccl::{
    CommConfig, Communicator, Device, Error, Host, Ordered, Place, Result, Sum, World,
};

use crate::ranks::{self, spmd};

use crate::busy::busy;

const RANKS: usize = 4;
const THREADS: usize = 8;
const STEPS: usize = 40;

/// A small generator: the tests need disorder, not quality.
fn shuffled(seed: usize, n: usize) -> Vec<usize> {
    let mut state = seed as u64 * 2 + 1;
    let mut order: Vec<usize> = (0..n).collect();
    for at in (1..n).rev() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(at, (state >> 33) as usize % (at + 1));
    }
    order
}

/// Connects, and then has a deadline.
fn connect<T>(place: Place<Host<T>>, seconds: u64) -> Result<Communicator<Host<T>>> {
    let (seat, device) = place.into_parts();
    let comm = Communicator::builder().seat(seat).device(device).config(within(seconds));
    ranks::connect(comm.build())
}

fn within(seconds: u64) -> CommConfig {
    CommConfig::builder().deadline(Duration::from_secs(seconds)).build()
}

#[test]
fn any_thread_of_any_rank_in_any_order() -> Result<()> {
    spmd::<Host>(RANKS, |place| {
        let comm = place.init_with(within(20))?;
        let (rank, device) = (comm.rank().index(), comm.device().clone());
        let ordered = Ordered::new(comm)?;
        let each = |thread: usize| -> Result<()> {
            for step in 0..STEPS {
                // Each rank gives its threads the keys in a different order.
                let key = shuffled(rank * STEPS + step, THREADS)[thread];
                // Calls have different lengths: a wrong pair would be reported, and a wrong key or
                // step would give another sum.
                let value = |rank| (1 + key + 10 * step + 1000 * rank) as u64;
                let mut x = device.from_slice(&vec![value(rank); 1 + key % 3])?;
                ordered.submit(format!("{step}/{key}"), |comm| {
                    comm.all_reduce_in_place(&mut x, Sum)
                })?;
                let sum: u64 = (0..RANKS).map(value).sum();
                assert_eq!(x.to_vec()?, vec![sum; 1 + key % 3], "step {step}, key {key}");
            }
            Ok(())
        };
        scope(|threads| -> Result<()> {
            let each = &each;
            let all: Vec<_> = (0..THREADS).map(|t| threads.spawn(move || each(t))).collect();
            all.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })?;
        ordered.finish()
    })
}

#[test]
fn a_missing_key_is_named() -> Result<()> {
    let told = busy(|| {
        Host::spmd(3, |place| -> Result<String> {
            let comm = connect(place, 5)?;
            let rank = comm.rank().index();
            let ordered = Ordered::new(comm)?;
            // Rank 2 has another key.
            let key = if rank == 2 { "grads/18" } else { "grads/17" };
            let error = ordered.submit(key, |_| Ok(())).expect_err("not every rank has it");
            assert!(error.is_peer_failure(), "{error}");
            let again = ordered.submit("more", |_| Ok(())).expect_err("it is poisoned");
            assert!(again.is_peer_failure() || again.is_fatal(), "{again}");
            Ok(error.to_string())
        })
    })?;
    // Whose deadline passes first is chance; the others learn of it.
    let named = [
        "rank 2 has not submitted `grads/17`; rank 2 waits with `grads/18` (at tests/ordered.rs:",
        "ranks 0 and 1 have not submitted `grads/18`; rank 0 waits with `grads/17` (at tests/ordered.rs:",
    ];
    for text in &told {
        assert!(named.iter().any(|named| text.contains(named)), "{text}");
        assert!(
            text.contains("a thread, or a task and `submit_async`, for each request in flight"),
            "{text}"
        );
    }
    Ok(())
}

#[test]
fn a_call_of_numbered_work_that_a_rank_does_not_make_is_named() -> Result<()> {
    let over = Barrier::new(2);
    let told = busy(|| {
        Host::spmd(2, |place| -> Result<String> {
            let ordered = Ordered::new(connect(place, 5)?)?;
            let rank = ordered.rank().index();
            let outside = ordered.submit_next(|_| Ok(())).expect_err("in no work");
            assert!(outside.is_refusal() && outside.to_string().contains("numbered"), "{outside}");
            let outcome = ordered.numbered("seven", || {
                // Work within it has numbers of its own.
                ordered.submit_next(|_| Ok(()))?;
                ordered.numbered("inner", || ordered.submit_next(|_| Ok(())))?;
                if rank == 0 { ordered.submit_next(|_| Ok(())) } else { Ok(()) }
            });
            // Rank 1 stays until then.
            over.wait();
            Ok(outcome.err().map(|error| error.to_string()).unwrap_or_default())
        })
    })?;
    assert!(told[0].contains("rank 1 has not submitted `seven/1`"), "{told:?}");
    Ok(())
}

#[test]
fn a_rank_that_ends_does_not_keep_others_waiting() -> Result<()> {
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        let rank = comm.rank().index();
        let ordered = Ordered::new(comm)?;
        match rank {
            0 => {
                let error = ordered.submit("loss", |_| Ok(())).expect_err("rank 1 does not come");
                let text = error.to_string();
                assert!(text.contains("rank 1 left: it takes no more requests"), "{text}");
            }
            _ => drop(ordered.into_inner()),
        }
        Ok(())
    })
}

/// The ranks that end well otherwise are told which request was missing, not only that rank 0 left.
#[test]
fn a_request_of_one_rank_is_named_on_all() -> Result<()> {
    let told = Host::spmd(3, |place| -> Result<String> {
        let ordered = Ordered::new(place.init()?)?;
        let outcome = match ordered.rank().index() {
            0 => ordered.submit("only here", |_| Ok(())).and_then(|()| ordered.finish()),
            _ => ordered.finish(),
        };
        Ok(outcome.expect_err("the ranks wait for different things").to_string())
    })?;
    for (rank, text) in told.iter().enumerate() {
        let parts =
            ["`only here`, which rank 0 submitted (at tests/ordered.rs:", "did not, on World"];
        assert!(parts.iter().all(|part| text.contains(part)), "rank {rank}: {text}");
    }
    Ok(())
}

#[test]
fn a_key_twice_and_a_request_inside_another() -> Result<()> {
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        let rank = comm.rank().index();
        let ordered = Ordered::new(comm)?;
        let (inside, tried) = (Barrier::new(2), Barrier::new(2));
        scope(|threads| {
            threads.spawn(|| {
                ordered.submit("a", |comm| {
                    let nested = ordered.submit("b", |_| Ok(())).expect_err("inside another");
                    assert!(nested.to_string().contains("inside another one"), "{nested}");
                    inside.wait();
                    tried.wait();
                    comm.barrier()
                })
            });
            inside.wait();
            let error = ordered.submit("a", |_| Ok(())).expect_err("it is in flight");
            let Error::BadSubmission(bad) = &error else { panic!("{error}") };
            assert!(matches!(bad.why, SubmissionFault::Twice { .. }), "{error}");
            let text = error.to_string();
            assert_eq!(text.matches("tests/ordered.rs:").count(), 2, "{text}");
            assert!(error.is_refusal() && text.contains("keys of their own"), "{text}");
            tried.wait();
        });
        // The key is free again.
        assert_eq!(ordered.submit("a", |comm| comm.gather_values(&rank))?, [0, 1]);
        ordered.finish()
    })
}

#[test]
fn a_request_that_fails_ends_the_communicator() -> Result<()> {
    for panics in [false, true] {
        let told = Host::spmd(2, |place| -> Result<String> {
            let comm = place.init()?;
            let (rank, device) = (comm.rank().index(), comm.device().clone());
            let ordered = Ordered::new(comm)?;
            let mut x = device.from_slice(&[1_i32])?;
            let outcome = match (rank, panics) {
                (0, _) => ordered
                    .submit("save", |comm| comm.all_reduce_in_place(&mut x, Sum))
                    .and_then(|()| x.to_vec()),
                (_, false) => ordered
                    .submit("save", |_| Err(Error::other(std::io::Error::other("disk full")))),
                (_, true) => {
                    let panicked = std::panic::catch_unwind(AssertUnwindSafe(|| {
                        ordered.submit("save", |_| -> Result<()> { panic!("disk full") })
                    }));
                    assert!(panicked.is_err());
                    ordered.submit("next", |_| Ok(Vec::new()))
                }
            };
            Ok(outcome.expect_err("rank 1 failed").to_string())
        })?;
        let why = if panics { "it panicked: disk full" } else { "disk full" };
        assert!(
            told[0].contains(&format!("the request `save` failed on rank 1: {why}")),
            "{told:?}"
        );
        assert!(told[1].contains(why), "{told:?}");
    }
    Ok(())
}

/// An error of the program's own comes back as it is, and the others get its text.
#[test]
fn a_request_fails_with_an_error_of_the_program() -> Result<()> {
    #[derive(Debug)]
    enum Stop {
        Comm(Error),
        /// Its text panics.
        Unspeakable,
        Full,
    }
    impl From<Error> for Stop {
        fn from(error: Error) -> Self {
            Self::Comm(error)
        }
    }
    impl fmt::Display for Stop {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self {
                Self::Comm(error) => error.fmt(f),
                Self::Unspeakable => panic!("no words"),
                Self::Full => f.write_str("the disk is full"),
            }
        }
    }
    for speaks in [true, false] {
        let told = Host::spmd(2, |place| -> Result<String> {
            let ordered = Ordered::new(place.init()?)?;
            let mut x = ordered.device().from_slice(&[1_i32])?;
            let rank = ordered.rank().index();
            let sum = ordered.try_submit("first", |comm| -> Result<i32, Stop> {
                comm.all_reduce_in_place(&mut x, Sum)?;
                Ok(x.to_vec()?[0])
            });
            assert_eq!(sum.expect("both ranks call it"), 2);
            let stops = || {
                let stop = if speaks { Stop::Full } else { Stop::Unspeakable };
                ordered.try_submit("save", |_| -> Result<(), Stop> { Err(stop) })
            };
            Ok(match (rank, speaks) {
                (0, _) => {
                    let outcome = ordered.try_submit("save", |comm| -> Result<(), Stop> {
                        comm.all_reduce_in_place(&mut x, Sum)?;
                        Ok(x.to_vec().map(drop)?)
                    });
                    let Err(Stop::Comm(error)) = outcome else { panic!("{outcome:?}") };
                    error.to_string()
                }
                (_, true) => {
                    assert!(matches!(stops(), Err(Stop::Full)));
                    String::new()
                }
                (_, false) => {
                    assert!(std::panic::catch_unwind(AssertUnwindSafe(stops)).is_err());
                    String::new()
                }
            })
        })?;
        let why = if speaks { "the disk is full" } else { "with an error" };
        let failed = format!("the request `save` failed on rank 1: {why}");
        assert!(told[0].contains(&failed), "{told:?}");
    }
    Ok(())
}

/// The steps of the docs: out of the `Arc`, out of the `Ordered`, recovered, and wrapped again.
#[test]
fn a_service_goes_on_after_a_death() -> Result<()> {
    fn submits<W: World>(ordered: &Ordered<W>, key: &str) -> Result<Vec<i32>> {
        let mut x = ordered.device().from_slice(&[1_i32])?;
        ordered.submit(key, |comm| comm.all_reduce_in_place(&mut x, Sum))?;
        x.to_vec()
    }
    typed_nccl::spmd::<Host>(3, |place| {
        let ordered = Arc::new(Ordered::new(place.init()?)?);
        if ordered.rank() == 2 {
            return Ok(());
        }
        let lost = submits(&ordered, "loss").expect_err("rank 2 is gone");
        assert!(lost.is_peer_failure(), "{lost}");
        let inside = ordered.submit("again", |comm| comm.recover().map(drop));
        assert!(inside.expect_err("not within a request").is_peer_failure());
        let mut comm = Arc::into_inner(ordered).expect("no thread has it").into_inner();
        comm.recover()?;
        let ordered = Ordered::new(comm)?;
        assert_eq!(submits(&ordered, "loss")?, [2]);
        ordered.finish()
    })
}

/// The reason of a rank with an `Ordered` that leaves with its own error, or with a panic.
#[test]
fn the_others_hear_why_it_was_dropped() {
    for panics in [false, true] {
        let told = Mutex::new(String::new());
        let run = || {
            typed_nccl::spmd::<Host>(2, |place| {
                let comm = place.init()?;
                let rank = comm.rank().index();
                let ordered = Ordered::new(comm)?;
                if rank == 0 {
                    let lost = ordered.submit("loss", |_| Ok(())).expect_err("rank 1 leaves");
                    assert!(lost.is_peer_failure(), "{lost}");
                    *told.lock().expect("no panic") = lost.to_string();
                    return Ok(());
                }
                assert!(!panics, "disk full");
                Err(Error::other(std::io::Error::other("disk full")))
            })
        };
        let ended = std::panic::catch_unwind(AssertUnwindSafe(run));
        assert!(!matches!(ended, Ok(Ok(()))));
        let text = told.into_inner().expect("no panic");
        assert!(text.contains("disk full") && !text.contains("has ended"), "{text}");
    }
}

#[test]
fn the_order_is_one() -> Result<()> {
    let orders = Host::spmd(3, |place| -> Result<Vec<usize>> {
        let comm = place.init()?;
        let rank = comm.rank().index();
        let (ordered, order) = (Ordered::new(comm)?, Mutex::new(Vec::new()));
        scope(|threads| {
            for key in shuffled(rank, THREADS) {
                let (ordered, order) = (&ordered, &order);
                threads.spawn(move || {
                    ordered.submit(format!("grads/{key}"), |_| {
                        order.lock().expect("no panic").push(key);
                        Ok(())
                    })
                });
            }
        });
        ordered.finish()?;
        Ok(order.into_inner().expect("no panic"))
    })?;
    assert_eq!(orders[0].iter().copied().collect::<HashSet<_>>().len(), THREADS);
    assert!(orders.iter().all(|order| *order == orders[0]), "{orders:?}");
    Ok(())
}
